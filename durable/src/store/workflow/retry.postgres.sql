-- First statement of a retry: the next workflow attempt waits, by workflows_pkey; then as in a resume.
-- $1 id, $2 epoch, $3 delay in microseconds, $4 error, $5 write id, $6 executor, $7 writer, $8 epoch of the lease
WITH lease AS MATERIALIZED (
    SELECT 1 FROM durable.writers WHERE executor_id = $6 AND writer = $7 AND epoch = $8 FOR SHARE
)
UPDATE durable.workflows
SET status = 'waiting', reason = 'retry', executor_id = NULL, epoch = epoch + 1, attempts = attempts + 1, recoveries = 0,
    wake_at = clock_timestamp() + $3::int8 * interval '1 microsecond', error_message = $4, write_id = $5,
    updated_at = clock_timestamp()
WHERE workflow_id = $1 AND CASE WHEN status = 'running' THEN epoch END = $2 AND EXISTS (SELECT 1 FROM lease)

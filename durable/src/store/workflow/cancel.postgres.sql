-- Cancels a workflow, by workflows_pkey. The writers of its executor are interrupted first, which waits for a statement
-- in flight; then the row is changed if the executor is still that one. $1 id, $2 reason, $3 write id
WITH was AS MATERIALIZED (
    SELECT executor_id FROM durable.workflows WHERE workflow_id = $1
), interrupted AS (
    UPDATE durable.writers SET interruptions = interruptions + 1 WHERE executor_id = (SELECT executor_id FROM was) RETURNING 1
)
UPDATE durable.workflows
SET status = 'cancelled', reason = $2, write_id = $3, completed_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE workflow_id = $1 AND (SELECT count(*) FROM interrupted) >= 0
  AND executor_id IS NOT DISTINCT FROM (SELECT executor_id FROM was)
  AND status IN ('pending', 'running', 'waiting', 'blocked')
RETURNING epoch, completed_at

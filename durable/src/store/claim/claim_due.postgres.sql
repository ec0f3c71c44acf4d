-- Claims pending workflows, by workflows_pending. Rows that others are claiming are skipped, not waited for.
-- The array keeps the update on workflows_pkey: of a join the planner makes a scan of the table when much is pending.
-- $1 executor, $2 writer, $3 epoch of the lease, $4 names, $5 versions, $6 limit
WITH lease AS MATERIALIZED (
    SELECT 1 FROM durable.writers WHERE executor_id = $1 AND writer = $2 AND epoch = $3 FOR SHARE
), due AS MATERIALIZED (
    SELECT workflow_id FROM durable.workflows
    WHERE status = 'pending' AND EXISTS (SELECT 1 FROM lease)
      AND (name, version) IN (SELECT * FROM unnest($4::text[], $5::int[]))
    ORDER BY priority, submission LIMIT $6 FOR UPDATE SKIP LOCKED
)
UPDATE durable.workflows w
SET status = 'running', reason = NULL, executor_id = $1, epoch = w.epoch + 1, attempts = greatest(w.attempts, 1),
    started_at = coalesce(w.started_at, clock_timestamp()), updated_at = clock_timestamp()
WHERE w.workflow_id = ANY (ARRAY(SELECT workflow_id FROM due))
RETURNING w.workflow_id, w.name, w.version, w.epoch, w.seed

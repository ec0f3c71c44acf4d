-- Gives back what a dead executor owned, by workflows_running, and counts a recovery; zero again after a checkpoint
-- of the last ownership. $1 executor, $2 max recoveries, $3 limit
WITH lost AS MATERIALIZED (
    SELECT workflow_id FROM durable.workflows WHERE executor_id = $1 AND status = 'running' LIMIT $3 FOR UPDATE SKIP LOCKED
), counted AS MATERIALIZED (
    SELECT w.workflow_id, CASE WHEN EXISTS (SELECT 1 FROM durable.workflow_steps s
                                            WHERE s.workflow_id = w.workflow_id AND s.epoch = w.epoch) THEN 0 ELSE w.recoveries END + 1 AS n
    FROM durable.workflows w JOIN lost USING (workflow_id)
)
UPDATE durable.workflows w
SET status = CASE WHEN c.n > $2 THEN 'dead' ELSE 'pending' END,
    reason = CASE WHEN c.n > $2 THEN 'recoveries' END,
    error_message = CASE WHEN c.n > $2 THEN 'its executor was lost ' || c.n || ' times with no step recorded in between; '
                    || 'resume it once the cause is gone' END,
    completed_at = CASE WHEN c.n > $2 THEN clock_timestamp() END,
    recoveries = c.n, executor_id = NULL, updated_at = clock_timestamp()
FROM counted c WHERE w.workflow_id = c.workflow_id

-- Gives back what a dead executor owned, by workflows_running, and counts a recovery; zero again after a checkpoint
-- of the last ownership. Rows that another sweep has locked are left to it.
-- $1 executor, $2 max recoveries, $3 limit
WITH lost AS MATERIALIZED (
    SELECT workflow_id FROM durable.workflows WHERE executor_id = $1 AND status = 'running' LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE durable.workflows w
SET executor_id = NULL, updated_at = clock_timestamp(), (status, reason, error_message, completed_at, recoveries) = (
    SELECT CASE WHEN n > $2 THEN 'dead' ELSE 'pending' END,
           CASE WHEN n > $2 THEN 'recoveries' END,
           CASE WHEN n > $2 THEN 'executors lost with no step recorded in between: ' || n || '; resume it once the cause is gone' END,
           CASE WHEN n > $2 THEN clock_timestamp() END,
           n
    FROM (SELECT CASE WHEN EXISTS (SELECT 1 FROM durable.workflow_steps s
                                   WHERE s.workflow_id = w.workflow_id AND s.epoch = w.epoch) THEN 0 ELSE w.recoveries END + 1 AS n
          OFFSET 0) c)
WHERE w.workflow_id = ANY (ARRAY(SELECT workflow_id FROM lost))

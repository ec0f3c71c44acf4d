-- Gives back what a dead executor owned, by workflows_running, and counts a recovery; zero again after a checkpoint
-- of the last ownership. ?1 executor, ?2 max recoveries, ?3 limit, ?4 now
UPDATE workflows
SET status = iif(c.n > ?2, 'dead', 'pending'),
    reason = iif(c.n > ?2, 'recoveries', NULL),
    error_message = iif(c.n > ?2, 'executors lost with no step recorded in between: ' || c.n || '; resume it once the cause is gone', NULL),
    completed_at = iif(c.n > ?2, ?4, NULL),
    recoveries = c.n, executor_id = NULL, updated_at = ?4
FROM (SELECT w.submission, iif(EXISTS (SELECT 1 FROM workflow_steps s WHERE s.workflow_id = w.workflow_id AND s.epoch = w.epoch),
                               0, w.recoveries) + 1 AS n
      FROM workflows w WHERE w.executor_id = ?1 AND w.status = 'running' LIMIT ?3) c
WHERE workflows.submission = c.submission

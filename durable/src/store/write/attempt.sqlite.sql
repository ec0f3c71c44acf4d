-- Records progress of steps. ?1-?3 lease, ?4 now; a row: id, branch, index, epoch, attempt, name, status, error, started, ended, next
WITH lease AS (SELECT 1 FROM writers WHERE executor_id = ?1 AND writer = ?2 AND epoch = ?3 AND ?4 IS NOT NULL)
INSERT INTO workflow_step_attempts (workflow_id, branch, step_index, attempt, step_name, status, error_message, started_at, ended_at,
       next_attempt_at)
SELECT column1, column2, column3, column5, column6, column7, column8, column9, column10, column11
FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?))
WHERE (SELECT CASE WHEN w.status = 'running' THEN w.epoch END FROM workflows w WHERE w.workflow_id = column1) = column4
  AND EXISTS (SELECT 1 FROM lease)
ON CONFLICT (workflow_id, branch, step_index, attempt) DO UPDATE SET status = excluded.status,
       error_message = excluded.error_message, ended_at = excluded.ended_at, next_attempt_at = excluded.next_attempt_at

-- Records progress of steps. Lease and now, then a row: id, branch, index, epoch, attempt, name, status, error, started, ended, next
WITH lease AS (
    SELECT w.executor_id, own.now FROM (SELECT ? AS executor_id, ? AS writer, ? AS epoch, ? AS now) own
    JOIN writers w ON w.executor_id = own.executor_id AND w.writer = own.writer AND w.epoch = own.epoch)
INSERT INTO workflow_step_attempts (workflow_id, branch, step_index, attempt, step_name, status, error_message, started_at, ended_at,
       next_attempt_at)
SELECT column1, column2, column3, column5, column6, column7, column8, column9, column10, column11
FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?))
WHERE (SELECT CASE WHEN w.status = 'running' THEN w.epoch END FROM workflows w WHERE w.workflow_id = column1) = column4
  AND EXISTS (SELECT 1 FROM lease)
ON CONFLICT (workflow_id, branch, step_index, attempt) DO UPDATE SET status = excluded.status,
       error_message = excluded.error_message, ended_at = excluded.ended_at, next_attempt_at = excluded.next_attempt_at

-- Third: an error outcome becomes an attempt. ?1 id, ?2 branch, ?3 index
INSERT INTO workflow_step_attempts
       (workflow_id, branch, step_index, attempt, step_name, status, error_message, started_at, ended_at)
SELECT workflow_id, branch, step_index, attempts, step_name, 'failed', error_message, started_at, completed_at
FROM workflow_steps WHERE workflow_id = ?1 AND branch = ?2 AND step_index = ?3
ON CONFLICT (workflow_id, branch, step_index, attempt) DO UPDATE
SET status = 'failed', error_message = excluded.error_message, ended_at = excluded.ended_at, next_attempt_at = NULL

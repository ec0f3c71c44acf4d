-- Fourth: error outcomes become attempts, and their steps run again. $1 id, $2 branches, $3 indexes
WITH aside AS (
    DELETE FROM durable.workflow_steps s USING unnest($2::text[], $3::int[]) u(branch, idx)
    WHERE s.workflow_id = $1 AND s.branch = u.branch AND s.step_index = u.idx RETURNING s.*
)
INSERT INTO durable.workflow_step_attempts
       (workflow_id, branch, step_index, attempt, step_name, status, error_message, started_at, ended_at)
SELECT workflow_id, branch, step_index, attempts, step_name, 'failed', error_message, started_at, completed_at FROM aside
ON CONFLICT (workflow_id, branch, step_index, attempt) DO UPDATE
SET status = 'failed', error_message = excluded.error_message, ended_at = excluded.ended_at, next_attempt_at = NULL

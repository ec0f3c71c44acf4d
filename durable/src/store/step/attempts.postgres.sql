-- Attempts of steps of some workflows, by workflow_step_attempts_pkey. $1 ids
SELECT workflow_id, branch, step_index, attempt, status, next_attempt_at
FROM durable.workflow_step_attempts WHERE workflow_id = ANY($1) ORDER BY workflow_id, branch, step_index, attempt

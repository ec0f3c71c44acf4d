-- Attempts of steps of some workflows, by the primary key. ?1 ids as a JSON array
SELECT a.workflow_id, branch, step_index, attempt, status, next_attempt_at
FROM json_each(?1) ids CROSS JOIN workflow_step_attempts a ON a.workflow_id = ids.value ORDER BY ids.key, branch, step_index, attempt

-- Gives back what an executor owns and does not run, by workflows_running. ?1 executor, ?2 ids to keep as a JSON array, ?3 now
UPDATE workflows SET status = 'pending', executor_id = NULL, updated_at = ?3
WHERE executor_id = ?1 AND status = 'running' AND workflow_id NOT IN (SELECT value FROM json_each(?2))

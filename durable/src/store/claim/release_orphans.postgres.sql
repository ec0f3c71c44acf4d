-- Gives back what an executor owns and does not run, by workflows_running. $1 executor, $2 ids to keep
UPDATE durable.workflows SET status = 'pending', executor_id = NULL, updated_at = clock_timestamp()
WHERE executor_id = $1 AND status = 'running' AND workflow_id <> ALL($2)

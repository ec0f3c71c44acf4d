-- Workflows that an executor does not run any more, by workflows_pkey. $1 executor, $2 ids
SELECT workflow_id, coalesce(status = 'cancelled' AND executor_id = $1, false) AS cancelled FROM durable.workflows
WHERE workflow_id = ANY($2) AND NOT (status = 'running' AND executor_id = $1)

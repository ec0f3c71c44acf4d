-- One workflow, by workflows_pkey. $1 id
SELECT workflow_id, name, version, status, reason, error_message, executor_id, epoch, attempts, recoveries, write_id
FROM durable.workflows WHERE workflow_id = $1

-- One workflow, by workflows_pkey. $1 id
SELECT name, status, reason, error_message, epoch, write_id
FROM durable.workflows WHERE workflow_id = $1

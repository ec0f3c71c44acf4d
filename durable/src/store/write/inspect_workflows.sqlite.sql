-- What a workflow of a batch is now, by its id. ?1 id
SELECT workflow_id, name, version, status, reason, error_message, executor_id, epoch, attempts, recoveries, write_id
FROM workflows WHERE workflow_id = ?1

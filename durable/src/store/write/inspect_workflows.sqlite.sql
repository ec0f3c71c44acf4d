-- What a workflow of a batch is now, by its id. ?1 id
SELECT name, status, reason, error_message, epoch, write_id
FROM workflows WHERE workflow_id = ?1

-- Workflows that an executor does not run any more, by the unique index on workflow_id. ?1 executor, ?2 ids as a JSON array
SELECT workflow_id, coalesce(status = 'cancelled' AND executor_id = ?1, 0) AS cancelled FROM workflows
WHERE workflow_id IN (SELECT value FROM json_each(?2)) AND NOT (status = 'running' AND executor_id IS ?1)

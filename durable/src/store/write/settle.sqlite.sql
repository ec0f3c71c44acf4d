-- Ends of workflows, by the unique index on workflow_id. ?1-?3 lease, ?4 now; a row: id, epoch, status, reason, error, write id
WITH lease AS (SELECT 1 FROM writers WHERE executor_id = ?1 AND writer = ?2 AND epoch = ?3 AND ?4 IS NOT NULL)
UPDATE workflows
SET status = u.column3, reason = u.column4, error_message = u.column5, write_id = u.column6, executor_id = NULL, updated_at = ?4,
    completed_at = iif(u.column3 <> 'blocked', ?4, NULL)
FROM (VALUES (?,?,?,?,?,?)) u
WHERE workflows.workflow_id = u.column1 AND workflows.epoch = u.column2 AND workflows.status = 'running'
  AND EXISTS (SELECT 1 FROM lease)

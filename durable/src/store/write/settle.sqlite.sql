-- Ends of workflows, by the unique index on workflow_id. Lease and now, then a row: id, epoch, status, reason, error, write id
WITH lease AS (
    SELECT w.executor_id, own.now FROM (SELECT ? AS executor_id, ? AS writer, ? AS epoch, ? AS now) own
    JOIN writers w ON w.executor_id = own.executor_id AND w.writer = own.writer AND w.epoch = own.epoch)
UPDATE workflows
SET status = u.column3, reason = u.column4, error_message = u.column5, write_id = u.column6, executor_id = NULL,
    updated_at = (SELECT now FROM lease), completed_at = iif(u.column3 <> 'blocked', (SELECT now FROM lease), NULL)
FROM (VALUES (?,?,?,?,?,?)) u
WHERE workflows.workflow_id = u.column1 AND workflows.epoch = u.column2 AND workflows.status = 'running'
  AND EXISTS (SELECT 1 FROM lease)

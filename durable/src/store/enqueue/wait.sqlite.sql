-- Those whose prerequisites have not all ended wait, by the unique index on workflow_id. ?1 [[id, ..], ..] as JSON
UPDATE workflows SET awaiting = c.open, status = 'waiting', reason = 'after'
FROM (SELECT d.workflow_id, count(*) AS open FROM workflow_dependencies d
      WHERE d.workflow_id IN (SELECT value ->> 0 FROM json_each(?1)) AND d.ended_as IS NULL GROUP BY d.workflow_id) c
WHERE workflows.workflow_id = c.workflow_id

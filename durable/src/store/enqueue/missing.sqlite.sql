-- A prerequisite that does not exist, by the unique index on workflow_id. ?1 [[id, prerequisite, any end], ..] as JSON
SELECT value ->> 1 FROM json_each(?1)
WHERE NOT EXISTS (SELECT 1 FROM workflows w WHERE w.workflow_id = value ->> 1) LIMIT 1

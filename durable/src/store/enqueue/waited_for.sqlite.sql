-- Marks prerequisites that have not ended, by the unique index on workflow_id. ?1 [[id, prerequisite, any end], ..] as JSON
UPDATE workflows SET dependents = 1
WHERE workflow_id IN (SELECT value ->> 1 FROM json_each(?1)) AND status NOT IN ('done', 'failed', 'cancelled', 'dead')

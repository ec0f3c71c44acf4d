-- Who waits for whom; of a prerequisite named twice the stricter word counts. ?1 [[id, prerequisite, any end], ..] as JSON
INSERT INTO workflow_dependencies (workflow_id, prerequisite_id, any_end, ended_as)
SELECT l.id, l.prerequisite, l.any_end, iif(p.status IN ('done', 'failed', 'cancelled', 'dead'), p.status, NULL)
FROM (SELECT value ->> 0 AS id, value ->> 1 AS prerequisite, min(value ->> 2) AS any_end FROM json_each(?1) GROUP BY 1, 2) l
CROSS JOIN workflows p ON p.workflow_id = l.prerequisite WHERE true
ON CONFLICT DO NOTHING

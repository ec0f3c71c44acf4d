-- Records workflows, by the unique index on workflow_id. ?1-?3 lease, ?4 now; a row: id, name, version, here, seed, write id
WITH lease AS (SELECT 1 FROM writers WHERE executor_id = ?1 AND writer = ?2 AND epoch = ?3 AND ?4 IS NOT NULL)
INSERT INTO workflows (workflow_id, name, version, status, executor_id, epoch, attempts, seed, write_id, created_at, updated_at, started_at)
SELECT column1, column2, column3, iif(column4, 'running', 'pending'), iif(column4, ?1, NULL), column4, column4, column5, column6,
       ?4, ?4, iif(column4, ?4, NULL)
FROM (VALUES (?,?,?,?,?,?))
WHERE column1 IS NOT NULL AND EXISTS (SELECT 1 FROM lease)
ON CONFLICT (workflow_id) DO NOTHING

-- Records workflows for whoever claims them, in order; what any unique index has is left out. Now, then a row: id, name,
-- version, queue, priority, wake_at, dedup key, partition key, tags, seed, write id
WITH own AS (SELECT ? AS now)
INSERT INTO workflows (workflow_id, name, version, status, reason, queue, priority, wake_at, dedup_key, partition_key, tags, seed,
       write_id, created_at, updated_at)
SELECT column1, column2, column3, iif(column6 > now, 'waiting', 'pending'), iif(column6 > now, 'delay', NULL), column4, column5,
       column6, column7, column8, column9, column10, column11, now, now
FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?)) CROSS JOIN own
WHERE column1 IS NOT NULL
ON CONFLICT DO NOTHING

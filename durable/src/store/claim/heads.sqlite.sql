-- The first of a queue and name in their order, by workflows_pending, with and without a partition key apart. ?1 queue, ?2 name,
-- ?3 version, ?4 recoveries that make a suspect, ?5 whether suspects are asked for or the others, ?6 whether only those
-- without a partition key are, ?7 limit of each
SELECT * FROM (
    SELECT submission, priority, coalesce(wake_at, created_at) AS due FROM workflows
    WHERE status = 'pending' AND queue = ?1 AND name = ?2 AND version = ?3 AND (partition_key IS NULL) = 1 AND (recoveries >= ?4) = ?5
    ORDER BY priority, coalesce(wake_at, created_at), submission LIMIT ?7)
UNION ALL
SELECT * FROM (
    SELECT submission, priority, coalesce(wake_at, created_at) AS due FROM workflows
    WHERE status = 'pending' AND queue = ?1 AND name = ?2 AND version = ?3 AND (partition_key IS NULL) = 0 AND (recoveries >= ?4) = ?5
      AND NOT ?6
    ORDER BY priority, coalesce(wake_at, created_at), submission LIMIT ?7)

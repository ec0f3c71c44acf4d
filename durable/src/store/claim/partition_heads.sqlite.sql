-- The first of each partition in their order, by workflows_pending_in_partition. ?1 keys as a JSON array, ?2 queue,
-- ?3 served [[name, version], ..] as JSON, ?4 recoveries that make a suspect, ?5 whether suspects are asked for or the others,
-- ?6 limit of each
SELECT w.partition_key, w.submission, w.priority, coalesce(w.wake_at, w.created_at) AS due
FROM json_each(?1) k CROSS JOIN workflows w ON w.submission IN (
    SELECT n.submission FROM workflows n
    WHERE n.status = 'pending' AND n.queue = ?2 AND n.partition_key = k.value AND n.partition_key IS NOT NULL
      AND (n.name, n.version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?3)) AND (n.recoveries >= ?4) = ?5
    ORDER BY n.priority, coalesce(n.wake_at, n.created_at), n.submission LIMIT ?6)
ORDER BY w.partition_key, w.priority, due, w.submission

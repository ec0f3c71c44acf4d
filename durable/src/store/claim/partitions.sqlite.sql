-- Partitions of a queue that have pending work, by a walk over workflows_pending_in_partition, with what of them runs and was
-- claimed. ?1 queue, ?2 behind this key, ?3 executor, ?4 since, ?5 limit
WITH RECURSIVE k(key) AS (
    SELECT (SELECT partition_key FROM workflows WHERE status = 'pending' AND queue = ?1 AND partition_key IS NOT NULL
            AND partition_key > ?2 ORDER BY partition_key LIMIT 1)
    UNION ALL
    SELECT (SELECT partition_key FROM workflows WHERE status = 'pending' AND queue = ?1 AND partition_key IS NOT NULL
            AND partition_key > k.key ORDER BY partition_key LIMIT 1)
    FROM k WHERE k.key IS NOT NULL
)
SELECT key,
       (SELECT count(*) FROM executors e CROSS JOIN workflows w ON w.status = 'running' AND w.executor_id = e.executor_id
        AND w.queue = ?1 AND w.partition_key = key WHERE NOT e.released) AS running,
       (SELECT count(*) FROM workflows w WHERE w.status = 'running' AND w.executor_id = ?3 AND w.queue = ?1
        AND w.partition_key = key) AS mine,
       (SELECT coalesce(sum(c.workflows), 0) FROM queue_claims c
        WHERE c.queue = ?1 AND c.partition_key = key AND c.claimed_at > ?4) AS claimed
FROM k WHERE key IS NOT NULL LIMIT ?5

-- The names that have pending work and are served, with the limits of their queues, by a walk over workflows_pending.
-- ?1 served [[name, version], ..] as JSON, ?2 queues as a JSON array or NULL for all
SELECT g.queue, g.name, g.version, coalesce(q.paused, 0) AS paused, q.concurrency, q.executor_concurrency, q.rate, q.rate_window,
       q.partition_concurrency, q.partition_executor_concurrency, q.partition_rate, q.partition_rate_window,
       coalesce(q.partition_cursor, '') AS partition_cursor
FROM pending_names g LEFT JOIN queues q ON q.name = g.queue
WHERE (g.name, g.version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
  AND (?2 IS NULL OR g.queue IN (SELECT value FROM json_each(?2)))
ORDER BY g.queue

-- Queues and their depth: pending by workflows_pending, running by workflows_running, waiting by workflows_waiting.
SELECT q.name, q.paused, q.concurrency, q.executor_concurrency, q.rate, (extract(epoch FROM q.rate_window) * 1000000)::int8 AS rate_window,
       q.partition_concurrency, q.partition_executor_concurrency, q.partition_rate,
       (extract(epoch FROM q.partition_rate_window) * 1000000)::int8 AS partition_rate_window,
       (SELECT count(*) FROM durable.workflows w WHERE w.status = 'pending' AND w.queue = q.name) AS pending,
       (SELECT count(*) FROM durable.workflows w WHERE w.status = 'waiting' AND w.queue = q.name) AS waiting,
       (SELECT count(*) FROM durable.executors e JOIN durable.workflows w ON w.status = 'running' AND w.executor_id = e.executor_id
        AND w.queue = q.name WHERE NOT e.released) AS running
FROM durable.queues q ORDER BY q.name

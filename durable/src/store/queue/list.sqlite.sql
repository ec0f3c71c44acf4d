-- Queues and their depth: pending by workflows_pending, running by workflows_running, waiting by workflows_waiting.
SELECT q.name, q.paused, q.concurrency, q.executor_concurrency, q.rate, q.rate_window, q.partition_concurrency,
       q.partition_executor_concurrency, q.partition_rate, q.partition_rate_window,
       (SELECT count(*) FROM workflows w WHERE w.status = 'pending' AND w.queue = q.name) AS pending,
       (SELECT count(*) FROM workflows w WHERE w.status = 'waiting' AND w.queue = q.name) AS waiting,
       (SELECT count(*) FROM executors e CROSS JOIN workflows w ON w.status = 'running' AND w.executor_id = e.executor_id
        AND w.queue = q.name WHERE NOT e.released) AS running
FROM queues q ORDER BY q.name

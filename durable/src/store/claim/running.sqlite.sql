-- Workflows of a queue that run: of all executors and of one, by workflows_running. ?1 queue, ?2 executor
SELECT coalesce(sum(n), 0) AS running, coalesce(sum(n) FILTER (WHERE mine), 0) AS mine
FROM (SELECT e.executor_id = ?2 AS mine,
             (SELECT count(*) FROM workflows w WHERE w.status = 'running' AND w.executor_id = e.executor_id AND w.queue = ?1) AS n
      FROM executors e WHERE NOT e.released)

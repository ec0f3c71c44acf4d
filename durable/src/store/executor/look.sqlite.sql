-- Whether there is work, by workflows_pending and workflows_waiting. ?1 served [[name, version], ..] as JSON, ?2 queues as a JSON
-- array or NULL for all, ?3 now
SELECT EXISTS (SELECT 1 FROM pending_names g WHERE (g.name, g.version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
               AND (?2 IS NULL OR g.queue IN (SELECT value FROM json_each(?2))))
       OR coalesce(next.due_in <= 0, 0) AS due, next.due_in
FROM (SELECT min(wake_at) - ?3 AS due_in FROM workflows WHERE status = 'waiting' AND awaiting = 0) next

-- Whether there is work, by workflows_pending and workflows_waiting; when there is more, by time or because a rate has room
-- again; and whether there is a rate. ?1 served [[name, version], ..] as JSON, ?2 queues as a JSON array or NULL for all, ?3 now
WITH rates AS MATERIALIZED (
    SELECT q.name, q.rate_window AS window FROM queues q
    WHERE q.rate IS NOT NULL AND NOT q.paused AND (?2 IS NULL OR q.name IN (SELECT value FROM json_each(?2)))
    UNION ALL
    SELECT q.name, q.partition_rate_window FROM queues q
    WHERE q.partition_rate IS NOT NULL AND NOT q.paused AND (?2 IS NULL OR q.name IN (SELECT value FROM json_each(?2)))
), room AS (
    -- A window that is over before anybody looks has room now.
    SELECT min((SELECT min(c.claimed_at) FROM queue_claims c
                WHERE c.queue = r.name AND c.claimed_at > ?3 - max(r.window, 100000)) + r.window) AS at
    FROM rates r WHERE EXISTS (SELECT 1 FROM workflows w WHERE w.status = 'pending' AND w.queue = r.name)
), next AS (
    SELECT min(wake_at) AS at FROM workflows WHERE status = 'waiting' AND awaiting = 0
)
SELECT EXISTS (SELECT 1 FROM pending_names g WHERE (g.name, g.version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
               AND (?2 IS NULL OR g.queue IN (SELECT value FROM json_each(?2))))
       OR coalesce(next.at <= ?3, 0) AS due,
       min(coalesce(next.at, room.at), coalesce(room.at, next.at)) - ?3 AS due_in, EXISTS (SELECT 1 FROM rates) AS rated
FROM next, room

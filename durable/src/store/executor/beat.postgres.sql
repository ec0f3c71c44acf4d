-- Heartbeat, sweep and "is anything due" in one statement. The lock list is read, never tried: a lock function in a
-- WHERE clause takes locks for rows that do not match.
-- $1 executor, $2 lock class, $3 grace, $4 lease, $5 watching (microseconds), $6 names, $7 versions,
-- $8 queues or NULL
WITH beat AS (
    UPDATE durable.executors SET heartbeat_at = clock_timestamp() WHERE executor_id = $1 AND status = 'alive' RETURNING 1
), held AS MATERIALIZED (
    SELECT l.objid::int8 AS number FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid::int8 = $2::int8 AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
), dead AS MATERIALIZED (
    SELECT e.executor_id, e.name, e.heartbeat_at, e.status <> 'alive' AS marked
    FROM durable.executors e
    WHERE e.executor_id <> $1 AND NOT e.released
      AND (e.status <> 'alive'
           OR ($5::int8 >= $4::int8 AND e.heartbeat_at < clock_timestamp() - $4 * interval '1 microsecond')
           OR ($5 >= $3::int8 AND e.heartbeat_at < clock_timestamp() - $3 * interval '1 microsecond' AND e.has_session
               AND e.number NOT IN (SELECT number FROM held)))
    LIMIT 20
)
SELECT EXISTS (SELECT 1 FROM beat) AS alive, clock_timestamp() AS now,
       (SELECT coalesce(sum(interruptions), 0)::int8 FROM durable.writers WHERE executor_id = $1) AS interruptions,
       look.due, look.due_in, look.rated,
       d.executor_id, d.name, d.heartbeat_at, d.marked
FROM durable.look($6, $7, $8) look LEFT JOIN dead d ON true

-- Whether another executor that is not cleaned up after has a free lock or has ended, and whether one without a session
-- has been silent. $1 executor, $2 lock class, $3 the silence in microseconds
SELECT coalesce(bool_or(e.status <> 'alive' OR e.has_session AND NOT EXISTS (
           SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid::int8 = $2 AND l.objsubid = 2
             AND l.granted AND l.objid::int8 = e.number
             AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))), false) AS by_lock,
       coalesce(bool_or(e.status = 'alive' AND NOT e.has_session
           AND e.heartbeat_at < clock_timestamp() - $3::int8 * interval '1 microsecond'), false) AS by_lease
FROM durable.executors e WHERE e.executor_id <> $1 AND NOT e.released

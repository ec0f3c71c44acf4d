-- Whether another executor's lock is free and it is not cleaned up after. $1 executor, $2 lock class
SELECT EXISTS (
    SELECT 1 FROM durable.executors e WHERE e.executor_id <> $1 AND NOT e.released AND (e.status <> 'alive' OR NOT EXISTS (
        SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid::int8 = $2 AND l.objsubid = 2 AND l.granted
          AND l.objid::int8 = e.number
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))))

-- The other executors that are not cleaned up after. ?1 executor
SELECT executor_id, name, heartbeat_at, status <> 'alive' AS marked FROM executors WHERE executor_id <> ?1 AND NOT released

-- The heartbeat. ?1 executor, ?2 now
UPDATE executors SET heartbeat_at = ?2 WHERE executor_id = ?1 AND status = 'alive'

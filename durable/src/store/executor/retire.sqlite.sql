-- Ends the own executor. ?1 executor, ?2 now
UPDATE executors SET status = 'stopped', ended_at = ?2 WHERE executor_id = ?1 AND status = 'alive'

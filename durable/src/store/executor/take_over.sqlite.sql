-- Declares an executor dead if its heartbeat is still the judged one. ?1 executor, ?2 heartbeat, ?3 now
UPDATE executors SET status = 'dead', ended_at = ?3 WHERE executor_id = ?1 AND status = 'alive' AND heartbeat_at = ?2

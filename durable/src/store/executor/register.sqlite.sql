-- A new executor. ?1 executor, ?2 name, ?3 now
INSERT INTO executors (executor_id, number, name, started_at, heartbeat_at)
VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM executors), ?2, ?3, ?3)
ON CONFLICT (executor_id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
RETURNING number

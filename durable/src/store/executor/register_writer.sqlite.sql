-- One of its lease rows. ?1 executor, ?2 writer
INSERT INTO writers (executor_id, writer) VALUES (?1, ?2) ON CONFLICT DO NOTHING

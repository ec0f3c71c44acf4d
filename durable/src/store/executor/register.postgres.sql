-- A new executor and its lease rows. $1 executor, $2 name, $3 highest writer number
WITH me AS (
    INSERT INTO durable.executors (executor_id, name) VALUES ($1, $2)
    ON CONFLICT (executor_id) DO UPDATE SET heartbeat_at = clock_timestamp() RETURNING number
), leases AS (
    INSERT INTO durable.writers (executor_id, writer) SELECT $1, n FROM generate_series(0, $3::int) n ON CONFLICT DO NOTHING
)
SELECT number FROM me

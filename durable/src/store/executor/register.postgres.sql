-- A new executor and its lease rows. $1 executor, $2 name, $3 highest writer number, $4 whether it has a session for its lock
WITH me AS (
    INSERT INTO durable.executors (executor_id, name, has_session) VALUES ($1, $2, $4)
    ON CONFLICT (executor_id) DO UPDATE SET heartbeat_at = clock_timestamp() RETURNING number
), leases AS (
    INSERT INTO durable.writers (executor_id, writer) SELECT $1, n FROM generate_series(0, $3::int) n ON CONFLICT DO NOTHING
)
SELECT number FROM me

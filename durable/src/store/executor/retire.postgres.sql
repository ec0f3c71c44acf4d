-- Ends the own executor; statements under its lease are void from then on. $1 executor
WITH me AS (
    UPDATE durable.executors SET status = 'stopped', ended_at = clock_timestamp()
    WHERE executor_id = $1 AND status = 'alive' RETURNING 1
)
UPDATE durable.writers SET epoch = epoch + 1 WHERE executor_id = $1 AND EXISTS (SELECT 1 FROM me)

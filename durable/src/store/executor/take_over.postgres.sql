-- Declares an executor dead if its heartbeat is still the judged one, and voids its lease rows; the update of a lease row
-- waits for a statement in flight. $1 executor, $2 heartbeat
WITH dead AS (
    UPDATE durable.executors SET status = 'dead', ended_at = clock_timestamp()
    WHERE executor_id = $1 AND status = 'alive' AND heartbeat_at = $2 RETURNING 1
), voided AS (
    UPDATE durable.writers SET epoch = epoch + 1 WHERE executor_id = $1 AND EXISTS (SELECT 1 FROM dead) RETURNING 1
)
SELECT (SELECT count(*) FROM voided), EXISTS (SELECT 1 FROM dead) AS taken

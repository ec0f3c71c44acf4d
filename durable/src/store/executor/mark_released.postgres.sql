-- Records that an ended executor owns nothing any more, by workflows_running, and forgets those that ended a day ago.
-- What another sweep has locked counts as owned: that sweep may yet be undone. $1 executor
WITH done AS (
    UPDATE durable.executors SET released = true WHERE executor_id = $1 AND status <> 'alive'
       AND NOT EXISTS (SELECT 1 FROM durable.workflows WHERE executor_id = $1 AND status = 'running')
), old AS (
    DELETE FROM durable.executors WHERE released AND ended_at < clock_timestamp() - interval '1 day' RETURNING executor_id
)
DELETE FROM durable.writers WHERE executor_id IN (SELECT executor_id FROM old)

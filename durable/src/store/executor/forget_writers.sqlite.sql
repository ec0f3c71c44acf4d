-- And their lease rows.
DELETE FROM writers WHERE executor_id NOT IN (SELECT executor_id FROM executors)

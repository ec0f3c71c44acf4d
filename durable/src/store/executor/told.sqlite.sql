-- What a heartbeat has to tell its executor. ?1 executor
SELECT coalesce((SELECT sum(interruptions) FROM writers WHERE executor_id = ?1), 0) AS interruptions

-- Names a queue and sets its limits, by queues_pkey. $1 name, $2 whether limits are given, $3 concurrency, $4 per executor,
-- $5 rate, $6 window in microseconds, $7 per partition, $8 per partition and executor, $9 rate per partition, $10 window
INSERT INTO durable.queues AS q (name, concurrency, executor_concurrency, rate, rate_window, partition_concurrency,
       partition_executor_concurrency, partition_rate, partition_rate_window)
VALUES ($1, $3, $4, $5, $6::int8 * interval '1 microsecond', $7, $8, $9, $10::int8 * interval '1 microsecond')
ON CONFLICT (name) DO UPDATE SET concurrency = excluded.concurrency, executor_concurrency = excluded.executor_concurrency,
       rate = excluded.rate, rate_window = excluded.rate_window, partition_concurrency = excluded.partition_concurrency,
       partition_executor_concurrency = excluded.partition_executor_concurrency, partition_rate = excluded.partition_rate,
       partition_rate_window = excluded.partition_rate_window
WHERE $2::bool

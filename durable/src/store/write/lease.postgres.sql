-- The own lease row, by writers_pkey. $1 executor, $2 writer
SELECT epoch, interruptions FROM durable.writers WHERE executor_id = $1 AND writer = $2

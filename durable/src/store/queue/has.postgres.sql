-- Whether a queue exists, by queues_pkey. $1 name
SELECT EXISTS (SELECT 1 FROM durable.queues WHERE name = $1)

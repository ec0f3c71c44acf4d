-- Pauses a queue or lets it go on, by queues_pkey. $1 name, $2 paused
UPDATE durable.queues SET paused = $2 WHERE name = $1

-- Pauses a queue or lets it go on, by its primary key. ?1 name, ?2 paused
UPDATE queues SET paused = ?2 WHERE name = ?1

-- Whether a queue exists, by its primary key. ?1 name
SELECT EXISTS (SELECT 1 FROM queues WHERE name = ?1)

-- Where the next claim begins to look among partitions, by the primary key. ?1 queue, ?2 key
UPDATE queues SET partition_cursor = ?2 WHERE name = ?1 AND partition_cursor <> ?2

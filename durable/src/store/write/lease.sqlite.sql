-- The own lease row, by its primary key. ?1 executor, ?2 writer
SELECT epoch, interruptions FROM writers WHERE executor_id = ?1 AND writer = ?2

-- Whether the lease that a claim proves is held, by the primary key. ?1 executor, ?2 writer, ?3 epoch
SELECT EXISTS (SELECT 1 FROM writers WHERE executor_id = ?1 AND writer = ?2 AND epoch = ?3)

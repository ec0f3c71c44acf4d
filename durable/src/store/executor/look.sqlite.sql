-- What a heartbeat looks at, after it. ?1 executor, ?2 served [[name, version], ..] as JSON
SELECT coalesce((SELECT sum(interruptions) FROM writers WHERE executor_id = ?1), 0) AS interruptions,
       EXISTS (SELECT 1 FROM workflows WHERE status = 'pending'
               AND (name, version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?2))) AS due

-- Counts claims for the rates of a queue. ?1 queue, ?2 submissions as a JSON array, ?3 now
INSERT INTO queue_claims (queue, partition_key, claimed_at, workflows)
SELECT ?1, partition_key, ?3, count(*) FROM workflows WHERE submission IN (SELECT value FROM json_each(?2)) GROUP BY partition_key

-- Claims of a queue since a moment, by queue_claims_by_time. ?1 queue, ?2 since
SELECT coalesce(sum(workflows), 0) FROM queue_claims WHERE queue = ?1 AND claimed_at > ?2

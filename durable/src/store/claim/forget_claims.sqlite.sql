-- Forgets claims that no window counts any more, by queue_claims_by_time. ?1 queue, ?2 before
DELETE FROM queue_claims WHERE queue = ?1 AND claimed_at <= ?2

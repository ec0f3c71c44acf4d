-- Whether a claim would find anything, by workflows_pending and workflows_waiting. ?1 now
SELECT EXISTS (SELECT 1 FROM workflows WHERE status = 'pending')
    OR EXISTS (SELECT 1 FROM workflows WHERE status = 'waiting' AND awaiting = 0 AND wake_at <= ?1)

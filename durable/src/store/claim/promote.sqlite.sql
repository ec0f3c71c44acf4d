-- What has fallen due is pending, by workflows_waiting. ?1 now
UPDATE workflows SET status = 'pending', reason = NULL, updated_at = ?1
WHERE submission IN (SELECT submission FROM workflows WHERE status = 'waiting' AND awaiting = 0 AND wake_at <= ?1
                     ORDER BY wake_at LIMIT 1000)

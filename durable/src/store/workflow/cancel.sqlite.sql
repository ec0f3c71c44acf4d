-- Cancels a workflow, by its id. Writers take turns, so nothing is in flight. ?1 id, ?2 reason, ?3 write id, ?4 now
UPDATE workflows SET status = 'cancelled', reason = ?2, write_id = ?3, completed_at = ?4, updated_at = ?4
WHERE workflow_id = ?1 AND status IN ('pending', 'running', 'waiting', 'blocked')
RETURNING executor_id, epoch

-- First statement of a resume: a new workflow attempt, by its id. ?1 id, ?2 write id, ?3 now
UPDATE workflows
SET status = 'pending', reason = NULL, executor_id = NULL, epoch = epoch + 1, attempts = 0, recoveries = 0, wake_at = NULL,
    awaiting = 0, queue = coalesce(queue, 'default'), error_message = NULL, completed_at = NULL, write_id = ?2, updated_at = ?3
WHERE workflow_id = ?1 AND status IN ('cancelled', 'failed', 'dead', 'blocked')

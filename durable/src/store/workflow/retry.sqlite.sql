-- First statement of a retry: the next workflow attempt waits, by its id; then as in a resume. ?1 id, ?2 epoch, ?3 delay in
-- microseconds, ?4 error, ?5 write id, ?6 executor, ?7 writer, ?8 epoch of the lease, ?9 now
UPDATE workflows
SET status = 'waiting', reason = 'retry', executor_id = NULL, epoch = epoch + 1, attempts = attempts + 1, recoveries = 0,
    wake_at = ?9 + ?3, error_message = ?4, write_id = ?5, updated_at = ?9
WHERE workflow_id = ?1 AND epoch = ?2 AND status = 'running'
  AND EXISTS (SELECT 1 FROM writers WHERE executor_id = ?6 AND writer = ?7 AND epoch = ?8)

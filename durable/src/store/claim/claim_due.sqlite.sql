-- Claims picked workflows, by submission, the rowid. ?1 submissions as a JSON array, ?2 executor, ?3 now
UPDATE workflows
SET status = 'running', reason = NULL, executor_id = ?2, epoch = epoch + 1, attempts = max(attempts, 1),
    started_at = coalesce(started_at, ?3), updated_at = ?3
WHERE submission IN (SELECT value FROM json_each(?1))
RETURNING submission, workflow_id, name, version, epoch, seed, attempts

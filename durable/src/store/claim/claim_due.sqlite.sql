-- Claims pending workflows, by workflows_pending; one writer at a time, so nothing is skipped.
-- ?1 executor, ?2 writer, ?3 epoch of the lease, ?4 served [[name, version], ..] as JSON, ?5 limit, ?6 now,
-- ?7 recoveries that make a suspect, ?8 whether suspects are asked for or the others
UPDATE workflows
SET status = 'running', reason = NULL, executor_id = ?1, epoch = epoch + 1, attempts = max(attempts, 1),
    started_at = coalesce(started_at, ?6), updated_at = ?6
WHERE submission IN (
    SELECT submission FROM workflows
    WHERE status = 'pending' AND EXISTS (SELECT 1 FROM writers WHERE executor_id = ?1 AND writer = ?2 AND epoch = ?3)
      AND (name, version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?4)) AND (recoveries >= ?7) = ?8
    ORDER BY priority, submission LIMIT ?5)
RETURNING workflow_id, name, version, epoch, seed

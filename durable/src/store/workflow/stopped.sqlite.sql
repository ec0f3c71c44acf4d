-- A page of workflows that stopped, by the unique index on workflow_id. ?1 statuses as a JSON array, ?2 name, ?3 queue, ?4 tag (each
-- may be NULL), ?5 behind this id, ?6 limit
SELECT workflow_id FROM workflows
WHERE status IN (SELECT value FROM json_each(?1)) AND status IN ('dead', 'failed', 'cancelled', 'blocked') AND workflow_id > ?5
  AND (?2 IS NULL OR name = ?2) AND (?3 IS NULL OR coalesce(queue, 'default') = ?3)
  AND (?4 IS NULL OR ?4 IN (SELECT value FROM json_each(tags)))
ORDER BY workflow_id LIMIT ?6

-- A page of workflows that stopped, by workflows_stopped where only dead and failed ones are asked for.
-- $1 statuses, $2 name, $3 queue, $4 tag (each may be NULL), $5 behind this id, $6 limit
SELECT workflow_id FROM durable.workflows
WHERE status = ANY ($1) AND status IN ('dead', 'failed', 'cancelled', 'blocked') AND workflow_id > $5
  AND ($2::text IS NULL OR name = $2) AND ($3::text IS NULL OR coalesce(queue, 'default') = $3)
  AND ($4::text IS NULL OR $4 = ANY (tags))
ORDER BY workflow_id LIMIT $6

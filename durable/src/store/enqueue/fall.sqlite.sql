-- Those of which a prerequisite has ended otherwise are cancelled, which tells their own dependents; a statement behind the
-- one that lets these wait. ?1 [[id, ..], ..] as JSON, ?2 now
UPDATE workflows SET status = 'cancelled', reason = 'after', awaiting = 0, completed_at = ?2, updated_at = ?2,
    error_message = 'it was to run after `' || c.prerequisite_id || '`, which is ' || c.ended_as
FROM (SELECT d.workflow_id, min(d.prerequisite_id) AS prerequisite_id, d.ended_as FROM workflow_dependencies d
      WHERE d.workflow_id IN (SELECT value ->> 0 FROM json_each(?1)) AND NOT d.any_end AND d.ended_as <> 'done' GROUP BY d.workflow_id) c
WHERE workflows.workflow_id = c.workflow_id AND workflows.status IN ('pending', 'waiting')

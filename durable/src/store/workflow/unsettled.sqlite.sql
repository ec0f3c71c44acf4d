-- Of some workflows, those that go on by themselves, by the unique index on workflow_id. ?1 ids as a JSON array
SELECT workflow_id FROM workflows
WHERE workflow_id IN (SELECT value FROM json_each(?1)) AND status IN ('pending', 'running', 'waiting')

-- Of some workflows, those that go on by themselves, by workflows_pkey. $1 ids
SELECT workflow_id FROM durable.workflows WHERE workflow_id = ANY($1) AND status IN ('pending', 'running', 'waiting')

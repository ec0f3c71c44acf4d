-- Third: where the checkpoints stand, by workflow_steps_pkey. $1 id
SELECT branch, step_index, status FROM durable.workflow_steps WHERE workflow_id = $1

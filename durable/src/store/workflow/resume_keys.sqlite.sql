-- Second: where the checkpoints stand, by the primary key. ?1 id
SELECT branch, step_index, status FROM workflow_steps WHERE workflow_id = ?1

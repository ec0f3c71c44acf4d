-- Makes the owner of a workflow look at its next heartbeat. ?1 executor
UPDATE writers SET interruptions = interruptions + 1 WHERE executor_id = ?1

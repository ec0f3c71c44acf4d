-- First statement of a resume: interrupts the writers of an executor that may still end a cancelled body. $1 id
UPDATE durable.writers SET interruptions = interruptions + 1
WHERE executor_id = (SELECT executor_id FROM durable.workflows WHERE workflow_id = $1)

-- Last: the result of the attempt before, by workflow_payloads_pkey. $1 id
DELETE FROM durable.workflow_payloads WHERE workflow_id = $1 AND part = 'result'

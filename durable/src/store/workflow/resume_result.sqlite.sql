-- Last: the result of the attempt before, by the primary key. ?1 id
DELETE FROM workflow_payloads WHERE workflow_id = ?1 AND part = 'result'

-- The inputs of claimed workflows, by the primary key. ?1 ids as a JSON array
SELECT p.workflow_id, codec, payload, payload_bytes
FROM json_each(?1) ids CROSS JOIN workflow_payloads p ON p.workflow_id = ids.value AND p.part = 'input'

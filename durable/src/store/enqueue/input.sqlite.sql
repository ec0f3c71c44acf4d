-- Inputs of those that were recorded, by the unique index on workflow_id. A row: id, write id, codec, text, bytes
INSERT INTO workflow_payloads (workflow_id, part, codec, payload, payload_bytes)
SELECT column1, 'input', column3, column4, column5
FROM (VALUES (?,?,?,?,?))
WHERE (SELECT write_id FROM workflows w WHERE w.workflow_id = column1) = column2
ON CONFLICT (workflow_id, part) DO NOTHING

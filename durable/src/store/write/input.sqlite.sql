-- Inputs of started workflows. ?1-?3 lease, ?4 now; a row: id, codec, text, bytes
WITH lease AS (SELECT 1 FROM writers WHERE executor_id = ?1 AND writer = ?2 AND epoch = ?3 AND ?4 IS NOT NULL)
INSERT INTO workflow_payloads (workflow_id, part, codec, payload, payload_bytes)
SELECT column1, 'input', column2, column3, column4
FROM (VALUES (?,?,?,?))
WHERE column1 IS NOT NULL AND EXISTS (SELECT 1 FROM lease)
ON CONFLICT (workflow_id, part) DO NOTHING

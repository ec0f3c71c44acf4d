-- Outcomes of bodies, before their status. ?1-?3 lease, ?4 now; a row: id, epoch, codec, encoding, text, bytes
WITH lease AS (SELECT 1 FROM writers WHERE executor_id = ?1 AND writer = ?2 AND epoch = ?3 AND ?4 IS NOT NULL)
INSERT INTO workflow_payloads (workflow_id, part, codec, error_encoding, payload, payload_bytes)
SELECT column1, 'result', column3, column4, column5, column6
FROM (VALUES (?,?,?,?,?,?))
WHERE column3 IS NOT NULL
  AND (SELECT CASE WHEN w.status = 'running' THEN w.epoch END FROM workflows w WHERE w.workflow_id = column1) = column2
  AND EXISTS (SELECT 1 FROM lease)
ON CONFLICT (workflow_id, part) DO UPDATE SET codec = excluded.codec, error_encoding = excluded.error_encoding,
       payload = excluded.payload, payload_bytes = excluded.payload_bytes

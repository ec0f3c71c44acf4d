-- Outcomes of bodies, before their status. Lease and now, then a row: id, epoch, codec, encoding, text, bytes
WITH lease AS (
    SELECT w.executor_id, own.now FROM (SELECT ? AS executor_id, ? AS writer, ? AS epoch, ? AS now) own
    JOIN writers w ON w.executor_id = own.executor_id AND w.writer = own.writer AND w.epoch = own.epoch)
INSERT INTO workflow_payloads (workflow_id, part, codec, error_encoding, payload, payload_bytes)
SELECT column1, 'result', column3, column4, column5, column6
FROM (VALUES (?,?,?,?,?,?))
WHERE column3 IS NOT NULL
  AND (SELECT CASE WHEN w.status = 'running' THEN w.epoch END FROM workflows w WHERE w.workflow_id = column1) = column2
  AND EXISTS (SELECT 1 FROM lease)
ON CONFLICT (workflow_id, part) DO UPDATE SET codec = excluded.codec, error_encoding = excluded.error_encoding,
       payload = excluded.payload, payload_bytes = excluded.payload_bytes

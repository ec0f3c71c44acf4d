-- Inputs of started workflows. Lease and now, then a row: id, codec, text, bytes
WITH lease AS (
    SELECT w.executor_id, own.now FROM (SELECT ? AS executor_id, ? AS writer, ? AS epoch, ? AS now) own
    JOIN writers w ON w.executor_id = own.executor_id AND w.writer = own.writer AND w.epoch = own.epoch)
INSERT INTO workflow_payloads (workflow_id, part, codec, payload, payload_bytes)
SELECT column1, 'input', column2, column3, column4
FROM (VALUES (?,?,?,?))
WHERE column1 IS NOT NULL AND EXISTS (SELECT 1 FROM lease)
ON CONFLICT (workflow_id, part) DO NOTHING

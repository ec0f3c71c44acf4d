-- Inputs of started workflows, behind them. Lease and now, then a row: id, write id, codec, text, bytes
WITH lease AS (
    SELECT w.executor_id, own.now FROM (SELECT ? AS executor_id, ? AS writer, ? AS epoch, ? AS now) own
    JOIN writers w ON w.executor_id = own.executor_id AND w.writer = own.writer AND w.epoch = own.epoch)
INSERT INTO workflow_payloads (workflow_id, part, codec, payload, payload_bytes)
SELECT column1, 'input', column3, column4, column5
FROM (VALUES (?,?,?,?,?))
WHERE (SELECT write_id FROM workflows w WHERE w.workflow_id = column1) = column2 AND EXISTS (SELECT 1 FROM lease)
ON CONFLICT (workflow_id, part) DO NOTHING

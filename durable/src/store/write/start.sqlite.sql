-- Records workflows, by the unique index on workflow_id; one that is to run here is left out if its queue is limited or paused.
-- Lease and now, then a row: id, name, version, here, seed, write id, queue
WITH lease AS (
    SELECT w.executor_id, own.now FROM (SELECT ? AS executor_id, ? AS writer, ? AS epoch, ? AS now) own
    JOIN writers w ON w.executor_id = own.executor_id AND w.writer = own.writer AND w.epoch = own.epoch)
INSERT INTO workflows (workflow_id, name, version, status, queue, executor_id, epoch, attempts, seed, write_id, created_at,
       updated_at, started_at)
SELECT column1, column2, column3, iif(column4, 'running', 'pending'), coalesce(column7, 'default'), iif(column4, (SELECT executor_id FROM lease), NULL),
       column4, column4, column5, column6, (SELECT now FROM lease), (SELECT now FROM lease), iif(column4, (SELECT now FROM lease), NULL)
FROM (VALUES (?,?,?,?,?,?,?))
WHERE column1 IS NOT NULL AND EXISTS (SELECT 1 FROM lease)
  AND (NOT column4 OR (SELECT NOT limited FROM queues WHERE name = coalesce(column7, 'default')))
ON CONFLICT (workflow_id) DO NOTHING

-- Records step outcomes, reading each workflow by its id. Lease and now, then a row: id, branch (NULL: ''), index, seq, kind
-- (NULL: step), name, codec, encoding, output, bytes, error, hash, call site, definition site, attempts, epoch, write id, times
-- A NULL row pads the statement to one of few lengths. One writer at a time makes an interruption count unnecessary.
WITH lease AS (
    SELECT w.executor_id, own.now FROM (SELECT ? AS executor_id, ? AS writer, ? AS epoch, ? AS now) own
    JOIN writers w ON w.executor_id = own.executor_id AND w.writer = own.writer AND w.epoch = own.epoch)
INSERT INTO workflow_steps (workflow_id, branch, step_index, seq, kind, step_name, status, codec, error_encoding, output, output_bytes,
       error_message, args_hash, call_site, definition_site, attempts, epoch, write_id, started_at, completed_at)
SELECT column1, ifnull(column2, ''), column3, column4, ifnull(column5, 'step'), column6, iif(column8 IS NULL, 'done', 'error'),
       column7, column8, column9, column10, column11, column12, column13, column14, column15, column16, column17, column18, column19
FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?))
WHERE (SELECT CASE WHEN w.status = 'running' OR (w.status = 'cancelled' AND w.completed_at >= column18) THEN w.epoch END
       FROM workflows w WHERE w.workflow_id = column1) = column16
  AND EXISTS (SELECT 1 FROM lease)
/* tolerate step */

-- Records one step outcome, by workflows_pkey: the scalar twin of the batch, for a batch of one.
-- $1-$4 lease; $5 id, $6 branch, $7 index, $8 seq, $9 kind, $10 name, $11 status, $12 codec, $13 encoding, $14 output,
-- $15 bytes, $16 error, $17 hash, $18 call site, $19 definition site, $20 attempts, $21 epoch, $22 write id, $23-$24 times
WITH lease AS MATERIALIZED (
    SELECT 1 FROM durable.writers WHERE executor_id = $1 AND writer = $2 AND epoch = $3 AND interruptions = $4 FOR SHARE
)
INSERT INTO durable.workflow_steps (workflow_id, branch, step_index, seq, kind, step_name, status, codec, error_encoding,
       output, output_bytes, error_message, args_hash, call_site, definition_site, attempts, epoch, write_id, started_at, completed_at)
SELECT $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24
WHERE EXISTS (SELECT 1 FROM lease)
  AND (SELECT CASE WHEN w.status = 'running' OR (w.status = 'cancelled' AND w.completed_at >= $23) THEN w.epoch END
       FROM durable.workflows w WHERE w.workflow_id = $5) = $21
/* tolerate step */

-- Claims pending workflows with their inputs, by `durable.claim`.
-- $1 executor, $2 writer, $3 epoch of the lease, $4 queues or NULL, $5 names, $6 versions, $7 limit,
-- $8 recoveries that make a suspect, $9 whether suspects are asked for or the others, $10 which queue begins
SELECT workflow_id, name, version, epoch, seed, attempts, codec, payload::text AS payload, payload_bytes
FROM durable.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- The inputs of claimed workflows, by workflow_payloads_pkey. $1 ids
SELECT workflow_id, codec, payload::text AS payload, payload_bytes
FROM durable.workflow_payloads WHERE workflow_id = ANY($1) AND part = 'input'

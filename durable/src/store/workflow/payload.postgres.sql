-- An input or result, by workflow_payloads_pkey. $1 id, $2 part
SELECT p.codec, p.error_encoding, p.payload::text AS payload, p.payload_bytes, w.error_message
FROM durable.workflow_payloads p LEFT JOIN durable.workflows w USING (workflow_id) WHERE p.workflow_id = $1 AND p.part = $2

-- An input or result, by the primary key. ?1 id, ?2 part
SELECT p.codec, p.error_encoding, p.payload, p.payload_bytes, w.error_message
FROM workflow_payloads p LEFT JOIN workflows w USING (workflow_id) WHERE p.workflow_id = ?1 AND p.part = ?2

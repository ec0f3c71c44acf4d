-- The recorded outcomes of some workflows, by the primary key and so in replay order. ?1 ids as a JSON array
SELECT s.workflow_id, branch, step_index, seq, kind, step_name, status, codec, error_encoding, output, output_bytes, error_message,
       args_hash, call_site, definition_site, write_id
FROM json_each(?1) ids CROSS JOIN workflow_steps s ON s.workflow_id = ids.value

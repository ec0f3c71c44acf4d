-- The recorded outcomes of some workflows in replay order, by workflow_steps_pkey. $1 ids
SELECT workflow_id, branch, step_index, seq, kind, step_name, status, codec, error_encoding, output::text AS output, output_bytes,
       error_message, args_hash, call_site, definition_site, write_id
FROM durable.workflow_steps WHERE workflow_id = ANY($1) ORDER BY workflow_id, branch, step_index

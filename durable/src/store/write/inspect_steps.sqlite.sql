-- The checkpoint under a key of a batch, by its primary key. ?1 id, ?2 branch, ?3 index
SELECT workflow_id, branch, step_index, seq, kind, step_name, status, codec, error_encoding, output, output_bytes, error_message,
       args_hash, call_site, definition_site, write_id
FROM workflow_steps WHERE workflow_id = ?1 AND branch = ?2 AND step_index = ?3

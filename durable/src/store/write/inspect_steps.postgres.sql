-- The checkpoints under the keys of a batch, in the order asked, by workflow_steps_pkey. $1 ids, $2 branches, $3 indexes
SELECT s.workflow_id, s.branch, s.step_index, s.seq, s.kind, s.step_name, s.status, s.codec, s.error_encoding, s.output::text AS output,
       s.output_bytes, s.error_message, s.args_hash, s.call_site, s.definition_site, s.write_id
FROM unnest($1::text[], $2::text[], $3::int[]) WITH ORDINALITY u(id, branch, idx, n)
LEFT JOIN LATERAL (SELECT * FROM durable.workflow_steps s
                   WHERE s.workflow_id = u.id AND s.branch = u.branch AND s.step_index = u.idx OFFSET 0) s ON true
ORDER BY u.n

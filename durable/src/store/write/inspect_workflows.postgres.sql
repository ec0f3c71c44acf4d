-- What the workflows of a batch are now, in the order asked, by workflows_pkey. $1 ids
SELECT w.workflow_id, w.name, w.status, w.reason, w.error_message, w.epoch, w.write_id
FROM unnest($1::text[]) WITH ORDINALITY u(id, n)
LEFT JOIN LATERAL (SELECT * FROM durable.workflows w WHERE w.workflow_id = u.id OFFSET 0) w ON true
ORDER BY u.n

-- What programs have, by registrations_pkey. $1 names, $2 versions, $3 queues
INSERT INTO durable.registrations AS r (name, version, queue) SELECT * FROM unnest($1::text[], $2::int[], $3::text[]) u(n, v, q)
ORDER BY n, v
ON CONFLICT (name, version) DO UPDATE SET queue = excluded.queue, registered_at = clock_timestamp() WHERE r.queue <> excluded.queue

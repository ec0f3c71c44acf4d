-- What programs have, by the primary key. ?1 [[name, version, queue], ..] as JSON, ?2 now
INSERT INTO registrations (name, version, queue, registered_at)
SELECT value ->> 0, value ->> 1, value ->> 2, ?2 FROM json_each(?1) WHERE true
ON CONFLICT (name, version) DO UPDATE SET queue = excluded.queue, registered_at = excluded.registered_at
WHERE registrations.queue <> excluded.queue

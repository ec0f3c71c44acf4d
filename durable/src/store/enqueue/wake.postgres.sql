-- Tells who listens; a statement of its own, because a notification in a commit makes commits queue up. $1 queues
SELECT pg_notify('durable.wake', q) FROM unnest($1::text[]) q

-- Pending workflows that this build does not have, by workflows_pending: a walk over names, then a count of each.
-- $1 names, $2 versions
SELECT g.name, g.version, sum(n)::int8 AS n
FROM durable.pending_names g CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM durable.workflows w
    WHERE w.status = 'pending' AND w.queue = g.queue AND w.name = g.name AND w.version = g.version) c
WHERE (g.name, g.version) NOT IN (SELECT * FROM unnest($1::text[], $2::int[]))
GROUP BY g.name, g.version ORDER BY g.name, g.version LIMIT 100

-- Pending workflows that this build does not have, by workflows_pending. $1 names, $2 versions
SELECT name, version, count(*) AS n FROM durable.workflows
WHERE status = 'pending' AND (name, version) NOT IN (SELECT * FROM unnest($1::text[], $2::int[]))
GROUP BY name, version ORDER BY name, version LIMIT 100

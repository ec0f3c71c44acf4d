-- Pending workflows that this build does not have, by workflows_pending. ?1 served [[name, version], ..] as JSON
SELECT name, version, count(*) AS n FROM workflows
WHERE status = 'pending' AND (name, version) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
GROUP BY name, version ORDER BY name, version LIMIT 100

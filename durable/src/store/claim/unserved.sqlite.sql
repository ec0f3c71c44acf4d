-- Pending workflows that this build does not have, by a walk over workflows_pending, then a count of each.
-- ?1 served [[name, version], ..] as JSON
SELECT name, version, sum(n) AS n
FROM (SELECT g.name, g.version, (SELECT count(*) FROM workflows w WHERE w.status = 'pending' AND w.queue = g.queue
                                 AND w.name = g.name AND w.version = g.version) AS n
      FROM pending_names g WHERE (g.name, g.version) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1)))
GROUP BY name, version ORDER BY name, version LIMIT 100

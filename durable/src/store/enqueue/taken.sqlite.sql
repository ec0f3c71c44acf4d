-- Rows that were left out, by the unique index on workflow_id and workflows_dedup. ?1 [[id, write id, name, dedup key], ..] as JSON
SELECT j.key AS n, coalesce(w.workflow_id, d.workflow_id) AS found
FROM json_each(?1) j
LEFT JOIN workflows w ON w.workflow_id = j.value ->> 0
LEFT JOIN workflows d ON d.name = j.value ->> 2 AND d.dedup_key = j.value ->> 3 AND d.dedup_key IS NOT NULL
     AND d.status IN ('pending', 'running', 'waiting', 'blocked')
WHERE w.write_id IS NOT j.value ->> 1

-- Records a batch: starts, then step outcomes, progress and ends. Reaches `workflows` by its primary key alone.
-- A status predicate outside the CASE would let a partial index serve, 130 times slower on a table that grew.
-- A start that is to run here is left out if its queue is limited or paused: then it is claimed like all other work.
-- $1-$4 lease; $5-$13 and $54 starts; $14-$32 steps; $33-$43 attempts; $44-$53 ends: one array per column.
-- A column that has its usual value in every row comes as an empty array, which pads with NULL.
WITH lease AS MATERIALIZED (
    SELECT 1 FROM durable.writers WHERE executor_id = $1 AND writer = $2 AND epoch = $3 AND interruptions = $4 FOR SHARE
), open_default AS MATERIALIZED (
    SELECT NOT limited AS free FROM durable.queues WHERE name = 'default'
), input AS (
    INSERT INTO durable.workflow_payloads (workflow_id, part, codec, payload, payload_bytes)
    SELECT u.id, 'input', u.codec, u.payload, u.bytes
    FROM (SELECT unnest($5::text[]) AS id, unnest($8::bool[]) AS here, unnest($11::int2[]) AS codec, unnest($12::json[]) AS payload,
                 unnest($13::bytea[]) AS bytes, unnest($54::text[]) AS queue) u
    WHERE EXISTS (SELECT 1 FROM lease)
      AND CASE WHEN NOT u.here THEN true WHEN u.queue IS NULL THEN (SELECT free FROM open_default)
          ELSE (SELECT NOT q.limited FROM durable.queues q WHERE q.name = u.queue) END
    ON CONFLICT (workflow_id, part) DO NOTHING
), start AS (
    INSERT INTO durable.workflows (workflow_id, name, version, status, queue, executor_id, epoch, attempts, seed, write_id, started_at)
    SELECT u.id, u.name, u.version, CASE WHEN u.here THEN 'running' ELSE 'pending' END, coalesce(u.queue, 'default'),
           CASE WHEN u.here THEN $1 END,
           u.here::int, u.here::int, u.seed, u.write_id, CASE WHEN u.here THEN clock_timestamp() END
    FROM (SELECT unnest($5::text[]) AS id, unnest($6::text[]) AS name, unnest($7::int[]) AS version,
                 unnest($8::bool[]) AS here, unnest($9::int8[]) AS seed, unnest($10::int8[]) AS write_id,
                 unnest($54::text[]) AS queue) u
    WHERE EXISTS (SELECT 1 FROM lease)
      AND CASE WHEN NOT u.here THEN true WHEN u.queue IS NULL THEN (SELECT free FROM open_default)
          ELSE (SELECT NOT q.limited FROM durable.queues q WHERE q.name = u.queue) END
    ON CONFLICT (workflow_id) DO NOTHING RETURNING 1
), step AS (
    INSERT INTO durable.workflow_steps (workflow_id, branch, step_index, seq, kind, step_name, status, codec, error_encoding,
           output, output_bytes, error_message, args_hash, call_site, definition_site, attempts, epoch, write_id, started_at, completed_at)
    SELECT u.id, coalesce(u.branch, ''), u.idx, u.seq, coalesce(u.kind, 'step'), u.name,
           CASE WHEN u.encoding IS NULL THEN 'done' ELSE 'error' END, coalesce(u.codec, 1::int2), u.encoding, u.output, u.bytes,
           u.error, u.hash, u.call_site, u.def_site, coalesce(u.attempts, 1), coalesce(u.epoch, 1), u.write_id, u.started, u.completed
    FROM (SELECT unnest($14::text[]) AS id, unnest($15::text[]) AS branch, unnest($16::int[]) AS idx, unnest($17::int8[]) AS seq,
                 unnest($18::text[]) AS kind, unnest($19::text[]) AS name, unnest($20::int2[]) AS codec, unnest($21::text[]) AS encoding,
                 unnest($22::json[]) AS output, unnest($23::bytea[]) AS bytes, unnest($24::text[]) AS error, unnest($25::int8[]) AS hash,
                 unnest($26::text[]) AS call_site, unnest($27::text[]) AS def_site, unnest($28::int[]) AS attempts,
                 unnest($29::int[]) AS epoch, unnest($30::int8[]) AS write_id, unnest($31::timestamptz[]) AS started,
                 unnest($32::timestamptz[]) AS completed) u
    WHERE EXISTS (SELECT 1 FROM lease)
      AND (SELECT CASE WHEN w.status = 'running' OR (w.status = 'cancelled' AND w.completed_at >= u.started) THEN w.epoch END
           FROM durable.workflows w WHERE w.workflow_id = u.id) = coalesce(u.epoch, 1)
    /* tolerate step */ RETURNING 1
), attempt AS (
    INSERT INTO durable.workflow_step_attempts AS a
           (workflow_id, branch, step_index, attempt, step_name, status, error_message, started_at, ended_at, next_attempt_at)
    SELECT u.id, u.branch, u.idx, u.attempt, u.name, u.status, u.error, u.started, u.ended, u.next
    FROM (SELECT unnest($33::text[]) AS id, unnest($34::text[]) AS branch, unnest($35::int[]) AS idx,
                 unnest($36::int[]) AS epoch, unnest($37::int[]) AS attempt, unnest($38::text[]) AS name,
                 unnest($39::text[]) AS status, unnest($40::text[]) AS error, unnest($41::timestamptz[]) AS started,
                 unnest($42::timestamptz[]) AS ended, unnest($43::timestamptz[]) AS next) u
    WHERE EXISTS (SELECT 1 FROM lease)
      AND (SELECT CASE WHEN w.status = 'running' THEN w.epoch END FROM durable.workflows w WHERE w.workflow_id = u.id) = u.epoch
    ON CONFLICT (workflow_id, branch, step_index, attempt) DO UPDATE SET status = excluded.status,
           error_message = excluded.error_message, ended_at = excluded.ended_at, next_attempt_at = excluded.next_attempt_at
    RETURNING 1
), result AS (
    INSERT INTO durable.workflow_payloads (workflow_id, part, codec, error_encoding, payload, payload_bytes)
    SELECT u.id, 'result', u.codec, u.encoding, u.payload, u.bytes
    FROM (SELECT unnest($44::text[]) AS id, unnest($45::int[]) AS epoch, unnest($50::int2[]) AS codec,
                 unnest($51::text[]) AS encoding, unnest($52::json[]) AS payload, unnest($53::bytea[]) AS bytes) u
    WHERE EXISTS (SELECT 1 FROM lease) AND u.codec IS NOT NULL
      AND (SELECT CASE WHEN w.status = 'running' THEN w.epoch END FROM durable.workflows w WHERE w.workflow_id = u.id) = u.epoch
    /* tolerate result */
), settle AS (
    INSERT INTO durable.workflows AS w (workflow_id, name, version, status, epoch, reason, error_message, submission, seed, write_id)
    SELECT u.id, '', 0, u.status, u.epoch, u.reason, u.error, 0, 0, u.write_id
    FROM (SELECT unnest($44::text[]) AS id, unnest($45::int[]) AS epoch, unnest($46::text[]) AS status,
                 unnest($47::text[]) AS reason, unnest($48::text[]) AS error, unnest($49::int8[]) AS write_id) u
    WHERE EXISTS (SELECT 1 FROM lease)
      AND (SELECT CASE WHEN v.status = 'running' THEN v.epoch END FROM durable.workflows v WHERE v.workflow_id = u.id) = u.epoch
    ON CONFLICT (workflow_id) DO UPDATE SET status = excluded.status, reason = excluded.reason, executor_id = NULL,
           error_message = excluded.error_message, write_id = excluded.write_id, updated_at = clock_timestamp(),
           completed_at = CASE WHEN excluded.status <> 'blocked' THEN clock_timestamp() END
    WHERE w.epoch = excluded.epoch AND w.status = 'running' RETURNING 1
)
SELECT (SELECT count(*) FROM start), (SELECT count(*) FROM step), (SELECT count(*) FROM attempt), (SELECT count(*) FROM settle)

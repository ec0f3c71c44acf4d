-- Records a batch: starts, then step outcomes, progress and ends. Reaches `workflows` by its primary key alone.
-- A status predicate outside the CASE would let a partial index serve, 130 times slower on a table that grew.
-- $1-$4 lease; $5-$13 starts; $14-$33 steps; $34-$44 attempts; $45-$54 ends: one array per column.
WITH lease AS MATERIALIZED (
    SELECT 1 FROM durable.writers WHERE executor_id = $1 AND writer = $2 AND epoch = $3 AND interruptions = $4 FOR SHARE
), input AS (
    INSERT INTO durable.workflow_payloads (workflow_id, part, codec, payload, payload_bytes)
    SELECT u.id, 'input', u.codec, u.payload::json, u.bytes
    FROM unnest($5::text[], $11::int2[], $12::text[], $13::bytea[]) u(id, codec, payload, bytes)
    WHERE EXISTS (SELECT 1 FROM lease)
    ON CONFLICT (workflow_id, part) DO NOTHING
), start AS (
    INSERT INTO durable.workflows (workflow_id, name, version, status, executor_id, epoch, attempts, seed, write_id, started_at)
    SELECT u.id, u.name, u.version, CASE WHEN u.here THEN 'running' ELSE 'pending' END, CASE WHEN u.here THEN $1 END,
           u.here::int, u.here::int, u.seed, u.write_id, CASE WHEN u.here THEN clock_timestamp() END
    FROM unnest($5::text[], $6::text[], $7::int[], $8::bool[], $9::int8[], $10::int8[]) u(id, name, version, here, seed, write_id)
    WHERE EXISTS (SELECT 1 FROM lease)
    ON CONFLICT (workflow_id) DO NOTHING RETURNING 1
), step AS (
    INSERT INTO durable.workflow_steps (workflow_id, branch, step_index, seq, kind, step_name, status, codec, error_encoding,
           output, output_bytes, error_message, args_hash, call_site, definition_site, attempts, epoch, write_id, started_at, completed_at)
    SELECT u.id, u.branch, u.idx, u.seq, u.kind, u.name, u.status, u.codec, u.encoding, u.output::json, u.bytes, u.error,
           u.hash, u.call_site, u.def_site, u.attempts, u.epoch, u.write_id, u.started, u.completed
    FROM unnest($14::text[], $15::text[], $16::int[], $17::int8[], $18::text[], $19::text[], $20::text[], $21::int2[], $22::text[],
           $23::text[], $24::bytea[], $25::text[], $26::int8[], $27::text[], $28::text[], $29::int[], $30::int[], $31::int8[],
           $32::timestamptz[], $33::timestamptz[])
         u(id, branch, idx, seq, kind, name, status, codec, encoding, output, bytes, error, hash, call_site, def_site, attempts,
           epoch, write_id, started, completed)
    WHERE EXISTS (SELECT 1 FROM lease)
      AND (SELECT CASE WHEN w.status = 'running' OR (w.status = 'cancelled' AND w.completed_at >= u.started) THEN w.epoch END
           FROM durable.workflows w WHERE w.workflow_id = u.id) = u.epoch
    /* tolerate */ RETURNING 1
), attempt AS (
    INSERT INTO durable.workflow_step_attempts AS a
           (workflow_id, branch, step_index, attempt, step_name, status, error_message, started_at, ended_at, next_attempt_at)
    SELECT u.id, u.branch, u.idx, u.attempt, u.name, u.status, u.error, u.started, u.ended, u.next
    FROM unnest($34::text[], $35::text[], $36::int[], $37::int[], $38::int[], $39::text[], $40::text[], $41::text[],
           $42::timestamptz[], $43::timestamptz[], $44::timestamptz[])
         u(id, branch, idx, epoch, attempt, name, status, error, started, ended, next)
    WHERE EXISTS (SELECT 1 FROM lease)
      AND (SELECT CASE WHEN w.status = 'running' THEN w.epoch END FROM durable.workflows w WHERE w.workflow_id = u.id) = u.epoch
    ON CONFLICT (workflow_id, branch, step_index, attempt) DO UPDATE SET status = excluded.status,
           error_message = excluded.error_message, ended_at = excluded.ended_at, next_attempt_at = excluded.next_attempt_at
    RETURNING 1
), result AS (
    INSERT INTO durable.workflow_payloads AS p (workflow_id, part, codec, error_encoding, payload, payload_bytes)
    SELECT u.id, 'result', u.codec, u.encoding, u.payload::json, u.bytes
    FROM unnest($45::text[], $46::int[], $51::int2[], $52::text[], $53::text[], $54::bytea[]) u(id, epoch, codec, encoding, payload, bytes)
    WHERE EXISTS (SELECT 1 FROM lease) AND u.codec IS NOT NULL
      AND (SELECT CASE WHEN w.status = 'running' THEN w.epoch END FROM durable.workflows w WHERE w.workflow_id = u.id) = u.epoch
    ON CONFLICT (workflow_id, part) DO UPDATE SET codec = excluded.codec, error_encoding = excluded.error_encoding,
           payload = excluded.payload, payload_bytes = excluded.payload_bytes
), settle AS (
    INSERT INTO durable.workflows AS w (workflow_id, name, version, status, epoch, reason, error_message, submission, seed, write_id)
    SELECT u.id, '', 0, u.status, u.epoch, u.reason, u.error, 0, 0, u.write_id
    FROM unnest($45::text[], $46::int[], $47::text[], $48::text[], $49::text[], $50::int8[]) u(id, epoch, status, reason, error, write_id)
    WHERE EXISTS (SELECT 1 FROM lease)
      AND (SELECT CASE WHEN v.status = 'running' THEN v.epoch END FROM durable.workflows v WHERE v.workflow_id = u.id) = u.epoch
    ON CONFLICT (workflow_id) DO UPDATE SET status = excluded.status, reason = excluded.reason, executor_id = NULL,
           error_message = excluded.error_message, write_id = excluded.write_id, updated_at = clock_timestamp(),
           completed_at = CASE WHEN excluded.status <> 'blocked' THEN clock_timestamp() END
    WHERE w.epoch = excluded.epoch AND w.status = 'running' RETURNING 1
)
SELECT (SELECT count(*) FROM start), (SELECT count(*) FROM step), (SELECT count(*) FROM attempt), (SELECT count(*) FROM settle)

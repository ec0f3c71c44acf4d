-- Queues: limits, claims under them, and runs that wait for each other.
-- Functions go by index whatever the session is set to, and whatever the tables' sizes were when they were planned.

-- A queue exists once it is named here. NULL is no limit.
CREATE TABLE durable.queues (
    name                           text COLLATE "C" PRIMARY KEY,
    paused                         boolean NOT NULL DEFAULT false,
    -- Workflows that run at once: of all executors, and of each.
    concurrency                    int CHECK (concurrency > 0),
    executor_concurrency           int CHECK (executor_concurrency > 0),
    -- Claims in any window of that length.
    rate                           int CHECK (rate > 0),
    rate_window                    interval CHECK (rate_window > interval '0'),
    -- The same for each partition key.
    partition_concurrency          int CHECK (partition_concurrency > 0),
    partition_executor_concurrency int CHECK (partition_executor_concurrency > 0),
    partition_rate                 int CHECK (partition_rate > 0),
    partition_rate_window          interval CHECK (partition_rate_window > interval '0'),
    -- Where the next claim begins to look, if there are more partitions than one claim looks at.
    partition_cursor               text COLLATE "C" NOT NULL DEFAULT '',
    limited_by_partition           boolean NOT NULL GENERATED ALWAYS AS (partition_concurrency IS NOT NULL
        OR partition_executor_concurrency IS NOT NULL OR partition_rate IS NOT NULL) STORED,
    limited                        boolean NOT NULL GENERATED ALWAYS AS (paused OR concurrency IS NOT NULL
        OR executor_concurrency IS NOT NULL OR rate IS NOT NULL OR partition_concurrency IS NOT NULL
        OR partition_executor_concurrency IS NOT NULL OR partition_rate IS NOT NULL) STORED,
    created_at                     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((rate IS NULL) = (rate_window IS NULL)),
    CHECK ((partition_rate IS NULL) = (partition_rate_window IS NULL))
);
INSERT INTO durable.queues (name) VALUES ('default');

-- What rate limits count, for as long as their window. Not the workflows themselves: those may be deleted.
CREATE TABLE durable.queue_claims (
    queue         text COLLATE "C" NOT NULL,
    partition_key text COLLATE "C",
    claimed_at    timestamptz NOT NULL,
    workflows     int NOT NULL
);
CREATE INDEX queue_claims_by_time ON durable.queue_claims (queue, claimed_at);
CREATE INDEX queue_claims_by_partition ON durable.queue_claims (queue, partition_key, claimed_at);

-- The workflows that programs have, and their queues: what `durable.enqueue` goes by.
CREATE TABLE durable.registrations (
    name          text COLLATE "C" NOT NULL,
    version       int NOT NULL,
    queue         text COLLATE "C" NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, version)
);

-- False behind a transaction pooler, where there is no session to hold a lock: only the lease tells that it is dead.
ALTER TABLE durable.executors ADD COLUMN has_session boolean NOT NULL DEFAULT true;

ALTER TABLE durable.workflows
    ALTER COLUMN queue SET DEFAULT 'default',
    ADD COLUMN partition_key text COLLATE "C",
    -- Prerequisites that have not ended.
    ADD COLUMN awaiting int NOT NULL DEFAULT 0,
    -- Whether others wait for its end.
    ADD COLUMN dependents boolean NOT NULL DEFAULT false;
UPDATE durable.workflows SET queue = 'default' WHERE queue IS NULL AND status IN ('pending', 'running', 'waiting', 'blocked');

-- What a claim looks for, in its order within a name: priority, due time, submission. With and without a partition key
-- apart: where partitions are limited, those without a key must not be looked for among all the others.
DROP INDEX durable.workflows_pending;
CREATE INDEX workflows_pending ON durable.workflows
    (queue, name, version, (partition_key IS NULL), priority, coalesce(wake_at, created_at), submission) WHERE status = 'pending';
CREATE INDEX workflows_pending_in_partition ON durable.workflows
    (queue, partition_key, priority, coalesce(wake_at, created_at), submission)
    WHERE status = 'pending' AND partition_key IS NOT NULL;
-- What a dead executor left behind, and what limits count.
DROP INDEX durable.workflows_running;
CREATE INDEX workflows_running ON durable.workflows (executor_id, queue, partition_key) WHERE status = 'running';
-- What falls due, and what waits in each queue.
CREATE INDEX workflows_waiting ON durable.workflows (awaiting, wake_at, queue) WHERE status = 'waiting';
-- One unfinished run for each name and key.
CREATE UNIQUE INDEX workflows_dedup ON durable.workflows (name, dedup_key)
    WHERE dedup_key IS NOT NULL AND status IN ('pending', 'running', 'waiting', 'blocked');

-- Who waits for whom.
CREATE TABLE durable.workflow_dependencies (
    workflow_id     text COLLATE "C" NOT NULL,
    prerequisite_id text COLLATE "C" NOT NULL,
    -- Any end will do, not `done` alone.
    any_end         boolean NOT NULL,
    -- The prerequisite's status once it has ended.
    ended_as        text COLLATE "C",
    PRIMARY KEY (workflow_id, prerequisite_id)
);
CREATE INDEX workflow_dependencies_open ON durable.workflow_dependencies (prerequisite_id) WHERE ended_as IS NULL;

-- Counts down the dependents of workflows that end, in the transaction that ends them. Level by level, not by the
-- trigger's own recursion, which a long chain would drive out of the stack.
CREATE FUNCTION durable.tell_dependents() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    ended text[];
    woken text[];
BEGIN
    SELECT array_agg(workflow_id) INTO ended FROM changed
    WHERE dependents AND status IN ('done', 'failed', 'cancelled', 'dead');
    WHILE ended IS NOT NULL LOOP
        -- In the order of ids: two that end at once would wait for each other.
        PERFORM 1 FROM durable.workflows WHERE workflow_id = ANY (ARRAY(
            SELECT DISTINCT d.workflow_id FROM durable.workflow_dependencies d
            WHERE d.prerequisite_id = ANY (ended) AND d.ended_as IS NULL))
        ORDER BY workflow_id FOR UPDATE;
        WITH met AS (
            UPDATE durable.workflow_dependencies d SET ended_as =
                (SELECT p.status FROM durable.workflows p WHERE p.workflow_id = d.prerequisite_id)
            WHERE d.prerequisite_id = ANY (ended) AND d.ended_as IS NULL
            RETURNING d.workflow_id, d.prerequisite_id, d.ended_as, d.any_end OR d.ended_as = 'done' AS fine
        ), told AS MATERIALIZED (
            SELECT workflow_id, count(*)::int AS n,
                   (array_agg(format('`%s`, which is %s', prerequisite_id, ended_as)) FILTER (WHERE NOT fine))[1] AS broken
            FROM met GROUP BY workflow_id
        ), moved AS (
            UPDATE durable.workflows w SET awaiting = w.awaiting - t.n, updated_at = clock_timestamp(),
                status = CASE WHEN t.broken IS NOT NULL THEN 'cancelled' WHEN w.awaiting > t.n THEN 'waiting'
                              WHEN w.wake_at > clock_timestamp() THEN 'waiting' ELSE 'pending' END,
                reason = CASE WHEN t.broken IS NOT NULL THEN 'after' WHEN w.awaiting > t.n THEN w.reason
                              WHEN w.wake_at > clock_timestamp() THEN 'delay' END,
                error_message = 'it was to run after ' || t.broken,
                completed_at = CASE WHEN t.broken IS NOT NULL THEN clock_timestamp() END
            FROM told t WHERE w.workflow_id = t.workflow_id AND w.status = 'waiting' AND w.awaiting > 0
            RETURNING w.workflow_id, w.status, w.queue, w.dependents
        )
        SELECT array_agg(workflow_id) FILTER (WHERE status = 'cancelled' AND dependents),
               array_agg(DISTINCT queue) FILTER (WHERE status = 'pending')
        INTO ended, woken FROM moved;
        PERFORM pg_notify('durable.wake', q) FROM unnest(woken) q;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER tell_dependents AFTER UPDATE ON durable.workflows REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION durable.tell_dependents();

-- Records workflows, all or none; one array for each column, links between them in three of their own. A row whose id
-- or dedup key is taken is left out: `found` is the id that has it.
CREATE FUNCTION durable.submit(
    ids text[], names text[], versions int[], queues text[], priorities int[], delays int8[], run_ats timestamptz[],
    dedup_keys text[], partition_keys text[], tag_lists json[], codecs int2[], payloads json[], bytes bytea[],
    seeds int8[], write_ids int8[], link_ids text[], link_write_ids int8[], link_ons text[], link_anys boolean[])
RETURNS TABLE (n int, found text, is_new boolean) LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    fresh text[];
    fresh_write_ids int8[];
    own_links text[];
BEGIN
    WITH u AS MATERIALIZED (
        SELECT generate_subscripts(ids, 1) AS n, unnest(ids) AS id, unnest(names) AS name, unnest(versions) AS version,
               unnest(queues) AS queue, unnest(priorities) AS priority, unnest(delays) AS delay, unnest(run_ats) AS run_at,
               unnest(dedup_keys) AS dedup_key, unnest(partition_keys) AS partition_key, unnest(tag_lists) AS tags,
               unnest(codecs) AS codec, unnest(payloads) AS payload, unnest(bytes) AS payload_bytes,
               unnest(seeds) AS seed, unnest(write_ids) AS write_id
    ), due AS MATERIALIZED (
        SELECT u.*, coalesce(run_at, clock_timestamp() + delay * interval '1 microsecond') AS wake_at FROM u
    ), w AS (
        INSERT INTO durable.workflows (workflow_id, name, version, status, reason, queue, priority, wake_at, dedup_key,
               partition_key, tags, seed, write_id)
        SELECT id, name, version, CASE WHEN wake_at > clock_timestamp() THEN 'waiting' ELSE 'pending' END,
               CASE WHEN wake_at > clock_timestamp() THEN 'delay' END, queue, coalesce(priority, 0), wake_at, dedup_key,
               partition_key, CASE WHEN tags IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(tags)) END, seed, write_id
        FROM due ORDER BY n
        ON CONFLICT DO NOTHING RETURNING workflow_id, write_id
    ), p AS (
        INSERT INTO durable.workflow_payloads (workflow_id, part, codec, payload, payload_bytes)
        -- Behind a CASE the list of ids is hashed, which the engine's sessions forbid a join.
        SELECT id, 'input', codec, payload, payload_bytes FROM u
        -- By the write id as well: one id may come twice, and the first be left out for its dedup key.
        WHERE CASE WHEN (id, write_id) IN (SELECT workflow_id, write_id FROM w) THEN true END
        ON CONFLICT DO NOTHING
    )
    SELECT array_agg(workflow_id), array_agg(write_id) INTO fresh, fresh_write_ids FROM w;
    IF cardinality(link_ids) > 0 AND fresh IS NOT NULL THEN
        -- Those of a row that was left out are not of the run that has its id.
        own_links := ARRAY(
            SELECT CASE WHEN l.write_id IN (SELECT unnest(fresh_write_ids)) THEN l.id END
            FROM (SELECT unnest(link_ids) AS id, unnest(link_write_ids) AS write_id) l);
        PERFORM durable.link(fresh, own_links, link_ons, link_anys);
    END IF;
    IF cardinality(fresh) = cardinality(ids) THEN
        RETURN;
    END IF;
    -- What the insert waited for is visible by now.
    RETURN QUERY
    SELECT u.n, w.workflow_id, w.write_id = u.write_id
    FROM (SELECT generate_subscripts(ids, 1) AS n, unnest(ids) AS id, unnest(names) AS name, unnest(dedup_keys) AS dedup_key,
                 unnest(write_ids) AS write_id) u
    LEFT JOIN LATERAL (
        (SELECT workflow_id, write_id FROM durable.workflows WHERE workflow_id = u.id)
        UNION ALL
        (SELECT workflow_id, write_id FROM durable.workflows WHERE name = u.name AND dedup_key = u.dedup_key
         AND dedup_key IS NOT NULL AND status IN ('pending', 'running', 'waiting', 'blocked'))
        LIMIT 1) w ON true
    WHERE w.write_id IS DISTINCT FROM u.write_id;
END $$;

-- Makes new workflows wait for others. Locks those first, so that none of them ends unseen.
CREATE FUNCTION durable.link(fresh text[], link_ids text[], link_ons text[], link_anys boolean[])
RETURNS void LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    missing text;
BEGIN
    PERFORM 1 FROM durable.workflows WHERE workflow_id = ANY (link_ons) ORDER BY workflow_id FOR UPDATE;
    SELECT o INTO missing FROM unnest(link_ons) o
    WHERE NOT EXISTS (SELECT 1 FROM durable.workflows w WHERE w.workflow_id = o OFFSET 0) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'there is no workflow with the id `%` to run after', missing USING ERRCODE = 'DU404';
    END IF;
    INSERT INTO durable.workflow_dependencies (workflow_id, prerequisite_id, any_end, ended_as)
    SELECT l.id, l.prerequisite, l.any_end,
           (SELECT CASE WHEN p.status IN ('done', 'failed', 'cancelled', 'dead') THEN p.status END
            FROM durable.workflows p WHERE p.workflow_id = l.prerequisite)
    -- Named twice, the stricter word counts.
    FROM (SELECT u.id, u.prerequisite, bool_and(u.any_end) AS any_end
          FROM (SELECT unnest(link_ids) AS id, unnest(link_ons) AS prerequisite, unnest(link_anys) AS any_end) u
          GROUP BY u.id, u.prerequisite) l
    WHERE CASE WHEN l.id IN (SELECT unnest(fresh)) THEN true END
    ON CONFLICT DO NOTHING;
    UPDATE durable.workflows SET dependents = true
    WHERE workflow_id = ANY (link_ons) AND NOT dependents AND status NOT IN ('done', 'failed', 'cancelled', 'dead');
    UPDATE durable.workflows w SET awaiting = c.open,
        status = CASE WHEN c.broken IS NOT NULL THEN 'cancelled' WHEN c.open > 0 THEN 'waiting' ELSE w.status END,
        reason = CASE WHEN c.broken IS NOT NULL OR c.open > 0 THEN 'after' ELSE w.reason END,
        error_message = 'it was to run after ' || c.broken,
        completed_at = CASE WHEN c.broken IS NOT NULL THEN clock_timestamp() END
    FROM (SELECT d.workflow_id, count(*) FILTER (WHERE d.ended_as IS NULL)::int AS open,
                 (array_agg(format('`%s`, which is %s', d.prerequisite_id, d.ended_as))
                  FILTER (WHERE NOT d.any_end AND d.ended_as <> 'done'))[1] AS broken
          FROM durable.workflow_dependencies d WHERE d.workflow_id = ANY (fresh) GROUP BY d.workflow_id) c
    WHERE w.workflow_id = c.workflow_id;
END $$;

-- Takes what a limit leaves of a queue, by partitions: each has its own heads, and a busy one is not read past.
-- The queue's row is locked. Returns the ids in order.
CREATE FUNCTION durable.pick_in_partitions(
    q durable.queues, me text, names text[], versions int[], room int, suspect_from int, suspects boolean, at timestamptz)
RETURNS text[] LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    keys text[] := '{}';
    rooms int[] := '{}';
    key text := q.partition_cursor;
    wrapped boolean := q.partition_cursor = '';
    seen int := 0;
    place int;
BEGIN
    -- Up to 1,000 partitions, from where the last claim stopped.
    WHILE seen < 1000 LOOP
        SELECT w.partition_key INTO key FROM durable.workflows w
        WHERE w.status = 'pending' AND w.queue = q.name AND w.partition_key IS NOT NULL AND w.partition_key > key
        ORDER BY w.partition_key LIMIT 1;
        IF key IS NULL OR (wrapped AND q.partition_cursor <> '' AND key > q.partition_cursor) THEN
            EXIT WHEN wrapped;
            wrapped := true;
            key := '';
            CONTINUE;
        END IF;
        seen := seen + 1;
        place := room;
        IF q.partition_concurrency IS NOT NULL OR q.partition_executor_concurrency IS NOT NULL THEN
            SELECT least(place, q.partition_concurrency - sum(c.n), q.partition_executor_concurrency - sum(c.n) FILTER (WHERE c.mine))
            INTO place FROM (
                SELECT e.executor_id = me AS mine,
                       (SELECT count(*) FROM durable.workflows w WHERE w.status = 'running' AND w.executor_id = e.executor_id
                        AND w.queue = q.name AND w.partition_key = key)::int AS n
                FROM durable.executors e WHERE NOT e.released) c;
        END IF;
        IF q.partition_rate IS NOT NULL THEN
            SELECT least(place, q.partition_rate - coalesce(sum(c.workflows), 0)::int) INTO place FROM durable.queue_claims c
            WHERE c.queue = q.name AND c.partition_key = key AND c.claimed_at > at - q.partition_rate_window;
        END IF;
        IF place > 0 THEN
            keys := keys || key;
            rooms := rooms || place;
        END IF;
    END LOOP;
    -- All were looked at, or the next claim goes on behind the last.
    key := CASE WHEN seen < 1000 THEN '' ELSE key END;
    UPDATE durable.queues SET partition_cursor = key WHERE name = q.name AND partition_cursor <> key;
    RETURN ARRAY(
        SELECT c.workflow_id FROM (
            SELECT w.* FROM (SELECT unnest(keys) AS key, unnest(rooms) AS place) k CROSS JOIN LATERAL (
                SELECT w.workflow_id, w.priority, coalesce(w.wake_at, w.created_at) AS due, w.submission FROM durable.workflows w
                WHERE w.status = 'pending' AND w.queue = q.name AND w.partition_key = k.key AND w.partition_key IS NOT NULL
                  AND (w.name, w.version) IN (SELECT unnest(names), unnest(versions)) AND (w.recoveries >= suspect_from) = suspects
                ORDER BY w.priority, coalesce(w.wake_at, w.created_at), w.submission LIMIT least(k.place, room)
                FOR UPDATE SKIP LOCKED) w
            UNION ALL
            SELECT w.* FROM (SELECT unnest(names) AS name, unnest(versions) AS version) g CROSS JOIN LATERAL (
                SELECT w.workflow_id, w.priority, coalesce(w.wake_at, w.created_at) AS due, w.submission FROM durable.workflows w
                WHERE w.status = 'pending' AND w.queue = q.name AND w.name = g.name AND w.version = g.version
                  AND w.partition_key IS NULL AND (w.recoveries >= suspect_from) = suspects
                ORDER BY w.priority, coalesce(w.wake_at, w.created_at), w.submission LIMIT room
                FOR UPDATE SKIP LOCKED) w) c
        ORDER BY c.priority, c.due, c.submission LIMIT room);
END $$;

-- The queues, names and versions that have pending work, by a walk from each to the next in workflows_pending.
CREATE VIEW durable.pending_names AS
    WITH RECURSIVE g AS (
        (SELECT w.queue, w.name, w.version FROM durable.workflows w
         WHERE w.status = 'pending' ORDER BY w.queue, w.name, w.version LIMIT 1)
        UNION ALL
        SELECT n.queue, n.name, n.version FROM g CROSS JOIN LATERAL (
            SELECT w.queue, w.name, w.version FROM durable.workflows w
            WHERE w.status = 'pending' AND (w.queue, w.name, w.version) > (g.queue, g.name, g.version)
            ORDER BY w.queue, w.name, w.version LIMIT 1) n
    ) SELECT g.queue, g.name, g.version FROM g;

-- Claims pending workflows for an executor whose lease row is held, by workflows_pending. Within a queue in the order
-- of priority, due time and submission; the room is shared among queues, which take turns at what does not divide.
-- A queue with limits is locked before it is counted, by statements of their own: each sees what the last holder did.
-- `serves` is NULL for every queue.
CREATE FUNCTION durable.claim(
    me text, lease_writer int, lease_epoch int, serves text[], served_names text[], served_versions int[], room int,
    suspect_from int, suspects boolean, turn int)
RETURNS TABLE (workflow_id text, name text, version int, epoch int, seed bigint, attempts int,
               codec smallint, payload json, payload_bytes bytea) LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    lane_queues text[];
    lane_names text[];
    lane_versions int[];
    lines text[];
    line text;
    locked text[];
    names text[];
    versions int[];
    q durable.queues;
    at timestamptz;
    place int;
    picked text[];
BEGIN
    PERFORM 1 FROM durable.writers l WHERE l.executor_id = me AND l.writer = lease_writer AND l.epoch = lease_epoch FOR SHARE;
    IF NOT FOUND OR room <= 0 THEN
        RETURN;
    END IF;
    -- What has fallen due.
    UPDATE durable.workflows w SET status = 'pending', reason = NULL, updated_at = clock_timestamp()
    WHERE w.workflow_id = ANY (ARRAY(
        SELECT d.workflow_id FROM durable.workflows d
        WHERE d.status = 'waiting' AND d.awaiting = 0 AND d.wake_at <= clock_timestamp()
        ORDER BY d.wake_at LIMIT 1000 FOR UPDATE SKIP LOCKED));
    SELECT array_agg(g.queue), array_agg(g.name), array_agg(g.version) INTO lane_queues, lane_names, lane_versions
    FROM durable.pending_names g
    WHERE (g.name, g.version) IN (SELECT unnest(served_names), unnest(served_versions)) AND (serves IS NULL OR g.queue = ANY (serves));
    IF lane_queues IS NULL THEN
        RETURN;
    END IF;
    lines := ARRAY(SELECT DISTINCT u FROM unnest(lane_queues) u ORDER BY u);
    -- What is counted over all executors; an executor's own claims come one after the other.
    locked := ARRAY(SELECT l.name FROM durable.queues l WHERE l.name = ANY (lines)
        AND (l.concurrency IS NOT NULL OR l.rate IS NOT NULL OR l.partition_concurrency IS NOT NULL OR l.partition_rate IS NOT NULL)
        ORDER BY l.name FOR UPDATE);
    at := clock_timestamp();
    FOR pass IN 1..2 LOOP
        FOR i IN 0..cardinality(lines) - 1 LOOP
            EXIT WHEN room <= 0;
            line := lines[1 + (i + turn) % cardinality(lines)];
            place := CASE pass WHEN 1 THEN least(room, greatest(1, room / (cardinality(lines) - i))) ELSE room END;
            SELECT * INTO q FROM durable.queues l WHERE l.name = line;
            CONTINUE WHEN q.paused;
            -- Limited while we waited for the locks of others: the next claim counts it.
            CONTINUE WHEN line <> ALL (locked)
                AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.partition_concurrency IS NOT NULL OR q.partition_rate IS NOT NULL);
            IF q.concurrency IS NOT NULL OR q.executor_concurrency IS NOT NULL THEN
                SELECT least(place, q.concurrency - sum(c.n), q.executor_concurrency - sum(c.n) FILTER (WHERE c.mine))
                INTO place FROM (
                    SELECT e.executor_id = me AS mine,
                           (SELECT count(*) FROM durable.workflows w WHERE w.status = 'running'
                            AND w.executor_id = e.executor_id AND w.queue = line)::int AS n
                    FROM durable.executors e WHERE NOT e.released) c;
            END IF;
            IF q.rate IS NOT NULL THEN
                SELECT least(place, q.rate - coalesce(sum(c.workflows), 0)::int) INTO place FROM durable.queue_claims c
                WHERE c.queue = line AND c.claimed_at > at - q.rate_window;
            END IF;
            CONTINUE WHEN place <= 0;
            SELECT array_agg(g.name), array_agg(g.version) INTO names, versions
            FROM (SELECT unnest(lane_queues) AS queue, unnest(lane_names) AS name, unnest(lane_versions) AS version) g
            WHERE g.queue = line;
            IF q.limited_by_partition THEN
                picked := durable.pick_in_partitions(q, me, names, versions, place, suspect_from, suspects, at);
            ELSE
                picked := ARRAY(
                    SELECT c.workflow_id FROM (SELECT unnest(names) AS name, unnest(versions) AS version) g
                    CROSS JOIN (VALUES (false), (true)) k (keyless) CROSS JOIN LATERAL (
                        SELECT w.workflow_id, w.priority, coalesce(w.wake_at, w.created_at) AS due, w.submission
                        FROM durable.workflows w
                        WHERE w.status = 'pending' AND w.queue = line AND w.name = g.name AND w.version = g.version
                          AND (w.partition_key IS NULL) = k.keyless AND (w.recoveries >= suspect_from) = suspects
                        ORDER BY w.priority, coalesce(w.wake_at, w.created_at), w.submission LIMIT place
                        FOR UPDATE SKIP LOCKED) c
                    ORDER BY c.priority, c.due, c.submission LIMIT place);
            END IF;
            CONTINUE WHEN cardinality(picked) = 0;
            room := room - cardinality(picked);
            RETURN QUERY
            WITH taken AS (
                UPDATE durable.workflows w
                SET status = 'running', reason = NULL, executor_id = me, epoch = w.epoch + 1, attempts = greatest(w.attempts, 1),
                    started_at = coalesce(w.started_at, clock_timestamp()), updated_at = clock_timestamp()
                WHERE w.workflow_id = ANY (picked)
                RETURNING w.workflow_id, w.name, w.version, w.epoch, w.seed, w.attempts, w.priority,
                          coalesce(w.wake_at, w.created_at) AS due, w.submission)
            SELECT t.workflow_id, t.name, t.version, t.epoch, t.seed, t.attempts, p.codec, p.payload, p.payload_bytes
            FROM taken t LEFT JOIN LATERAL (
                SELECT p.* FROM durable.workflow_payloads p WHERE p.workflow_id = t.workflow_id AND p.part = 'input' OFFSET 0) p ON true
            ORDER BY t.priority, t.due, t.submission;
            IF q.rate IS NOT NULL OR q.partition_rate IS NOT NULL THEN
                DELETE FROM durable.queue_claims c
                WHERE c.queue = line AND c.claimed_at <= at - greatest(q.rate_window, q.partition_rate_window);
                -- Behind every start that it counts, as `at` is before every start that it allows.
                INSERT INTO durable.queue_claims (queue, partition_key, claimed_at, workflows)
                SELECT line, w.partition_key, clock_timestamp(), count(*) FROM durable.workflows w
                WHERE w.workflow_id = ANY (picked) GROUP BY w.partition_key;
            END IF;
        END LOOP;
        EXIT WHEN room <= 0 OR cardinality(lines) = 1;
    END LOOP;
END $$;

-- Enqueues a workflow from SQL: from a trigger, psql or another language. Executors wake when the transaction commits.
-- Gives back its id; with a dedup key that is taken, the id of the run that has it. Without a queue or version it gets
-- what programs have registered for the name. The input is an object keyed by the names of the arguments.
CREATE FUNCTION durable.enqueue(
    workflow_name text, input json DEFAULT '{}', workflow_id text DEFAULT NULL, queue text DEFAULT NULL,
    priority int DEFAULT 0, delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, dedup_key text DEFAULT NULL,
    partition_key text DEFAULT NULL, tags text[] DEFAULT NULL, after text[] DEFAULT NULL, after_ended text[] DEFAULT NULL,
    version int DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    id text := coalesce(workflow_id, gen_random_uuid()::text);
    known durable.registrations;
    line text;
    wanted text[] := coalesce(after, '{}') || coalesce(after_ended, '{}');
    mine int8 := (random() * 9007199254740991)::int8;
    other record;
    stored json;
    due boolean;
BEGIN
    PERFORM durable.check_text('workflow name', coalesce(workflow_name, ''), 512);
    PERFORM durable.check_text('workflow id', id, 512);
    PERFORM durable.check_text('dedup key', dedup_key, 512);
    PERFORM durable.check_text('partition key', partition_key, 512);
    PERFORM durable.check_text('tag', t, 512) FROM unnest(tags) t;
    IF input IS NULL OR json_typeof(input) <> 'object' THEN
        RAISE EXCEPTION 'the input of a workflow is a JSON object keyed by the names of its arguments' USING ERRCODE = 'DU400';
    END IF;
    IF delay IS NOT NULL AND run_at IS NOT NULL THEN
        RAISE EXCEPTION 'delay and run_at exclude each other' USING ERRCODE = 'DU400';
    ELSIF delay < interval '0' OR delay > interval '1000 years' THEN
        RAISE EXCEPTION 'delay % is negative or longer than 1000 years', delay USING ERRCODE = 'DU400';
    ELSIF run_at >= '10000-01-01' THEN
        RAISE EXCEPTION 'run_at % is behind the year 9999', run_at USING ERRCODE = 'DU400';
    ELSIF version < 0 THEN
        RAISE EXCEPTION 'version % is negative', version USING ERRCODE = 'DU400';
    ELSIF cardinality(tags) > 100 THEN
        RAISE EXCEPTION 'a workflow has 100 tags at most, not %', cardinality(tags) USING ERRCODE = 'DU400';
    ELSIF id = ANY (wanted) THEN
        RAISE EXCEPTION 'workflow `%` can''t run after itself', id USING ERRCODE = 'DU400';
    ELSIF array_position(wanted, NULL) IS NOT NULL OR array_position(tags, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'a tag or an id to run after is NULL' USING ERRCODE = 'DU400';
    END IF;
    SELECT * INTO known FROM durable.registrations r
    WHERE r.name = workflow_name AND r.version = coalesce(enqueue.version, r.version) ORDER BY r.version DESC LIMIT 1;
    line := coalesce(queue, known.queue, 'default');
    IF NOT EXISTS (SELECT 1 FROM durable.queues q WHERE q.name = line) THEN
        RAISE EXCEPTION 'there is no queue `%`', left(line, 100) USING ERRCODE = 'DU404',
            HINT = 'a queue exists once a program names it: #[workflow(queue = "..")], Builder::queue or Client::set_queue';
    END IF;
    LOOP
        SELECT s.* INTO other FROM durable.submit(
            ARRAY[id], ARRAY[workflow_name], ARRAY[coalesce(enqueue.version, known.version, 1)], ARRAY[line],
            ARRAY[coalesce(priority, 0)], ARRAY[(extract(epoch FROM delay) * 1000000)::int8], ARRAY[CASE WHEN run_at IS NOT NULL THEN greatest(run_at, '1970-01-01') END], ARRAY[dedup_key],
            ARRAY[partition_key], ARRAY[to_json(tags)], ARRAY[1::int2], ARRAY[input], ARRAY[]::bytea[],
            ARRAY[(random() * 9007199254740991)::int8], ARRAY[mine],
            array_fill(id, ARRAY[cardinality(wanted)]), array_fill(mine, ARRAY[cardinality(wanted)]), wanted,
            array_fill(false, ARRAY[cardinality(coalesce(after, '{}'))]) || array_fill(true, ARRAY[cardinality(coalesce(after_ended, '{}'))])) s;
        -- Whoever held the dedup key has ended in between.
        EXIT WHEN NOT FOUND OR other.found IS NOT NULL;
    END LOOP;
    IF FOUND AND other.found = id THEN
        SELECT p.payload INTO stored FROM durable.workflow_payloads p WHERE p.workflow_id = id AND p.part = 'input';
        IF NOT EXISTS (SELECT 1 FROM durable.workflows w WHERE w.workflow_id = id AND w.name = workflow_name)
           OR stored::text IS DISTINCT FROM input::text THEN
            RAISE EXCEPTION 'workflow id `%` belongs to another run: use another id', id USING ERRCODE = 'DU409';
        END IF;
    ELSIF FOUND THEN
        RETURN other.found;
    END IF;
    SELECT w.status = 'pending' INTO due FROM durable.workflows w WHERE w.workflow_id = id;
    PERFORM pg_notify('durable.wake', CASE WHEN due THEN line ELSE '' END);
    RETURN id;
END $$;

-- Refuses text that no other way in would take.
CREATE FUNCTION durable.check_text(what text, value text, longest int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF value IS NULL OR (octet_length(value) <= longest AND value !~ '[\u0001-\u001f\u007f-\u009f]'
                         AND value !~ '^[\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$') THEN
        RETURN;
    END IF;
    RAISE EXCEPTION '% `%` can''t be used: 1 to % bytes of printable text', what, left(value, 40), longest USING ERRCODE = 'DU400';
END $$;

-- Dead letters and failures, for those who look and requeue.
CREATE INDEX workflows_stopped ON durable.workflows (status, completed_at) WHERE status IN ('dead', 'failed');

-- Whether something is pending in the queues that are served (NULL: all) or has fallen due; how many microseconds it is
-- until the next falls due, or until what a rate holds back may go on; and whether one of the queues has a rate.
CREATE FUNCTION durable.look(names text[], versions int[], serves text[])
RETURNS TABLE (due boolean, due_in int8, rated boolean) LANGUAGE sql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    WITH rates AS MATERIALIZED (
        SELECT q.name, v.rate_window FROM durable.queues q CROSS JOIN LATERAL (VALUES (q.rate_window), (q.partition_rate_window)) v (rate_window)
        WHERE v.rate_window IS NOT NULL AND NOT q.paused AND (serves IS NULL OR q.name = ANY (serves))
    ), room AS (
        SELECT min(c.claimed_at + r.rate_window) AS at FROM rates r CROSS JOIN LATERAL (
            SELECT min(c.claimed_at) AS claimed_at FROM durable.queue_claims c
            -- A window that is over before anybody looks has room now.
            WHERE c.queue = r.name AND c.claimed_at > clock_timestamp() - greatest(r.rate_window, interval '100 milliseconds')) c
        WHERE EXISTS (SELECT 1 FROM durable.workflows w WHERE w.status = 'pending' AND w.queue = r.name)
    ), next AS (
        SELECT min(w.wake_at) AS at FROM durable.workflows w WHERE w.status = 'waiting' AND w.awaiting = 0
    )
    SELECT EXISTS (SELECT 1 FROM durable.pending_names g WHERE (g.name, g.version) IN (SELECT * FROM unnest(names, versions))
                   AND (serves IS NULL OR g.queue = ANY (serves))) OR coalesce(next.at <= clock_timestamp(), false),
           -- No further than an hour: a time written by hand may be infinite.
           (extract(epoch FROM least(greatest(least(next.at, room.at), '1970-01-01'), clock_timestamp() + interval '1 hour')
                               - clock_timestamp()) * 1000000)::int8 * CASE WHEN coalesce(next.at, room.at) IS NOT NULL THEN 1 END,
           EXISTS (SELECT 1 FROM rates)
    FROM next, room
$$;

-- Queues: limits, claims under them, and runs that wait for each other.

-- A queue exists once it is named here. NULL is no limit. Windows are microseconds.
CREATE TABLE queues (
    name                           TEXT PRIMARY KEY,
    paused                         INTEGER NOT NULL DEFAULT 0,
    -- Workflows that run at once: of all executors, and of each.
    concurrency                    INTEGER CHECK (concurrency > 0),
    executor_concurrency           INTEGER CHECK (executor_concurrency > 0),
    -- Claims in any window of that length.
    rate                           INTEGER CHECK (rate > 0),
    rate_window                    INTEGER CHECK (rate_window > 0),
    -- The same for each partition key.
    partition_concurrency          INTEGER CHECK (partition_concurrency > 0),
    partition_executor_concurrency INTEGER CHECK (partition_executor_concurrency > 0),
    partition_rate                 INTEGER CHECK (partition_rate > 0),
    partition_rate_window          INTEGER CHECK (partition_rate_window > 0),
    -- Where the next claim begins to look, if there are more partitions than one claim looks at.
    partition_cursor               TEXT NOT NULL DEFAULT '',
    limited_by_partition           INTEGER NOT NULL GENERATED ALWAYS AS (partition_concurrency IS NOT NULL
        OR partition_executor_concurrency IS NOT NULL OR partition_rate IS NOT NULL) STORED,
    limited                        INTEGER NOT NULL GENERATED ALWAYS AS (paused OR concurrency IS NOT NULL
        OR executor_concurrency IS NOT NULL OR rate IS NOT NULL OR partition_concurrency IS NOT NULL
        OR partition_executor_concurrency IS NOT NULL OR partition_rate IS NOT NULL) STORED,
    created_at                     INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    CHECK ((rate IS NULL) = (rate_window IS NULL)),
    CHECK ((partition_rate IS NULL) = (partition_rate_window IS NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO queues (name) VALUES ('default');

-- What rate limits count, for as long as their window. Not the workflows themselves: those may be deleted.
CREATE TABLE queue_claims (
    queue         TEXT NOT NULL,
    partition_key TEXT,
    claimed_at    INTEGER NOT NULL,
    workflows     INTEGER NOT NULL
) STRICT;
CREATE INDEX queue_claims_by_time ON queue_claims (queue, claimed_at);
CREATE INDEX queue_claims_by_partition ON queue_claims (queue, partition_key, claimed_at);

-- The workflows that programs have, and their queues.
CREATE TABLE registrations (
    name          TEXT NOT NULL,
    version       INTEGER NOT NULL,
    queue         TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;

ALTER TABLE workflows ADD COLUMN partition_key TEXT;
-- Prerequisites that have not ended.
ALTER TABLE workflows ADD COLUMN awaiting INTEGER NOT NULL DEFAULT 0;
-- Whether others wait for its end.
ALTER TABLE workflows ADD COLUMN dependents INTEGER NOT NULL DEFAULT 0;
-- A column's default can't be changed here: whoever records a workflow names the queue `default`.
UPDATE workflows SET queue = 'default' WHERE queue IS NULL AND status IN ('pending', 'running', 'waiting', 'blocked');

-- What a claim looks for, in its order within a name: priority, due time, submission. With and without a partition key
-- apart: where partitions are limited, those without a key must not be looked for among all the others.
DROP INDEX workflows_pending;
CREATE INDEX workflows_pending ON workflows
    (queue, name, version, partition_key IS NULL, priority, coalesce(wake_at, created_at), submission) WHERE status = 'pending';
CREATE INDEX workflows_pending_in_partition ON workflows
    (queue, partition_key, priority, coalesce(wake_at, created_at), submission) WHERE status = 'pending' AND partition_key IS NOT NULL;
-- What a dead executor left behind, and what limits count.
DROP INDEX workflows_running;
CREATE INDEX workflows_running ON workflows (executor_id, queue, partition_key) WHERE status = 'running';
-- What falls due, and what waits in each queue.
CREATE INDEX workflows_waiting ON workflows (awaiting, wake_at, queue) WHERE status = 'waiting';
-- One unfinished run for each name and key.
CREATE UNIQUE INDEX workflows_dedup ON workflows (name, dedup_key)
    WHERE dedup_key IS NOT NULL AND status IN ('pending', 'running', 'waiting', 'blocked');
-- Dead letters and failures, for those who look and requeue.
CREATE INDEX workflows_stopped ON workflows (status, completed_at) WHERE status IN ('dead', 'failed');
-- Those that are being cancelled because of a prerequisite, within one change.
CREATE INDEX workflows_falling ON workflows (workflow_id) WHERE awaiting < 0;

-- Who waits for whom.
CREATE TABLE workflow_dependencies (
    workflow_id     TEXT NOT NULL,
    prerequisite_id TEXT NOT NULL,
    -- Any end will do, not `done` alone.
    any_end         INTEGER NOT NULL,
    -- The prerequisite's status once it has ended.
    ended_as        TEXT,
    PRIMARY KEY (workflow_id, prerequisite_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX workflow_dependencies_open ON workflow_dependencies (prerequisite_id) WHERE ended_as IS NULL;

-- Counts down the dependents of a workflow that ends, in the change that ends it. Those that it takes down with it are
-- found at once, however long the chain, and marked with awaiting = -1 until all others are counted down.
CREATE TRIGGER tell_dependents AFTER UPDATE OF status ON workflows
WHEN NEW.dependents AND NEW.status IN ('done', 'failed', 'cancelled', 'dead')
    AND OLD.status NOT IN ('done', 'failed', 'cancelled', 'dead')
BEGIN
    UPDATE workflows SET status = 'cancelled', reason = 'after', awaiting = -1, completed_at = NEW.updated_at, updated_at = NEW.updated_at
    WHERE NEW.status <> 'done' AND workflow_id IN (
        WITH RECURSIVE falling(id) AS (
            SELECT NEW.workflow_id
            UNION
            SELECT w.workflow_id FROM falling
            JOIN workflow_dependencies d ON d.prerequisite_id = falling.id AND d.ended_as IS NULL AND NOT d.any_end
            JOIN workflows w ON w.workflow_id = d.workflow_id AND w.status = 'waiting' AND w.awaiting > 0
        ) SELECT id FROM falling WHERE id <> NEW.workflow_id);
    UPDATE workflows SET awaiting = awaiting
        - (SELECT count(*) FROM workflow_dependencies d WHERE d.workflow_id = workflows.workflow_id
           AND d.prerequisite_id = NEW.workflow_id AND d.ended_as IS NULL)
        - (SELECT count(*) FROM workflows f CROSS JOIN workflow_dependencies d ON d.workflow_id = workflows.workflow_id
           AND d.prerequisite_id = f.workflow_id AND d.ended_as IS NULL WHERE f.awaiting < 0)
    WHERE status = 'waiting' AND awaiting > 0 AND workflow_id IN (
        SELECT d.workflow_id FROM workflow_dependencies d WHERE d.prerequisite_id = NEW.workflow_id AND d.ended_as IS NULL
        UNION
        SELECT d.workflow_id FROM workflows f CROSS JOIN workflow_dependencies d ON d.prerequisite_id = f.workflow_id
               AND d.ended_as IS NULL WHERE f.awaiting < 0);
    UPDATE workflows SET status = iif(wake_at > NEW.updated_at, 'waiting', 'pending'), reason = iif(wake_at > NEW.updated_at, 'delay', NULL),
        updated_at = NEW.updated_at
    WHERE status = 'waiting' AND awaiting = 0 AND reason = 'after' AND workflow_id IN (
        SELECT d.workflow_id FROM workflow_dependencies d WHERE d.prerequisite_id = NEW.workflow_id AND d.ended_as IS NULL
        UNION
        SELECT d.workflow_id FROM workflows f CROSS JOIN workflow_dependencies d ON d.prerequisite_id = f.workflow_id
               AND d.ended_as IS NULL WHERE f.awaiting < 0);
    UPDATE workflow_dependencies SET ended_as = NEW.status WHERE prerequisite_id = NEW.workflow_id AND ended_as IS NULL;
    UPDATE workflow_dependencies SET ended_as = 'cancelled'
    WHERE ended_as IS NULL AND prerequisite_id IN (SELECT workflow_id FROM workflows WHERE awaiting < 0);
    UPDATE workflows SET awaiting = 0, error_message = (
        SELECT 'it was to run after `' || d.prerequisite_id || '`, which is ' || d.ended_as FROM workflow_dependencies d
        WHERE d.workflow_id = workflows.workflow_id AND NOT d.any_end AND d.ended_as <> 'done' LIMIT 1)
    WHERE awaiting < 0;
END;

-- The queues, names and versions that have pending work, by a walk from each to the next in workflows_pending.
CREATE VIEW pending_names AS
    WITH RECURSIVE g(queue, name, version) AS (
        SELECT * FROM (SELECT queue, name, version FROM workflows WHERE status = 'pending' ORDER BY queue, name, version LIMIT 1)
        UNION ALL
        -- One lookup for each column: of a comparison of rows SQLite looks up the first alone.
        SELECT w.queue, w.name, w.version FROM g CROSS JOIN workflows w ON w.submission = coalesce(
            (SELECT submission FROM workflows n WHERE n.status = 'pending' AND n.queue = g.queue AND n.name = g.name
             AND n.version > g.version ORDER BY n.version LIMIT 1),
            (SELECT submission FROM workflows n WHERE n.status = 'pending' AND n.queue = g.queue AND n.name > g.name
             ORDER BY n.name, n.version LIMIT 1),
            (SELECT submission FROM workflows n WHERE n.status = 'pending' AND n.queue > g.queue
             ORDER BY n.queue, n.name, n.version LIMIT 1))
    ) SELECT queue, name, version FROM g;

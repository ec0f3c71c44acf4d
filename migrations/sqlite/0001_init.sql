-- The tables of durable. Runs in one transaction. Times are microseconds since 1970-01-01 UTC.
-- STRICT and TEXT: a column declared JSON has numeric affinity and would turn a u64 into a REAL.

CREATE TABLE executors (
    executor_id  TEXT PRIMARY KEY,
    number       INTEGER NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    status       TEXT NOT NULL DEFAULT 'alive' CHECK (status IN ('alive', 'stopped', 'dead')),
    -- 0 while workflows may still carry this executor's id after it ended.
    released     INTEGER NOT NULL DEFAULT 0,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    ended_at     INTEGER
) STRICT, WITHOUT ROWID;

-- One lease row for each connection that writes.
CREATE TABLE writers (
    executor_id   TEXT NOT NULL,
    writer        INTEGER NOT NULL,
    -- Raised by whoever takes over a dead executor: every later statement of the old owner is empty.
    epoch         INTEGER NOT NULL DEFAULT 1,
    -- Raised by whoever takes one workflow away; the owner looks for it with each heartbeat.
    interruptions INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (executor_id, writer)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflows (
    -- Order of submission; an alias of the rowid.
    submission    INTEGER PRIMARY KEY,
    workflow_id   TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    version       INTEGER NOT NULL,
    status        TEXT NOT NULL CHECK (status IN
                  ('pending', 'running', 'waiting', 'done', 'failed', 'cancelled', 'dead', 'blocked')),
    -- Why it is in this status, where the status alone does not say.
    reason        TEXT,
    queue         TEXT,
    priority      INTEGER NOT NULL DEFAULT 0,
    executor_id   TEXT,
    -- The fencing token: raised by every claim, proved by every write.
    epoch         INTEGER NOT NULL DEFAULT 0,
    attempts      INTEGER NOT NULL DEFAULT 0,
    -- Claims from dead executors since the last recorded step.
    recoveries    INTEGER NOT NULL DEFAULT 0,
    seed          INTEGER NOT NULL,
    write_id      INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,
    updated_at    INTEGER NOT NULL,
    completed_at  INTEGER,
    wake_at       INTEGER,
    deadline      INTEGER,
    parent_id     TEXT,
    dedup_key     TEXT,
    tags          TEXT,
    error_message TEXT
) STRICT;

-- What a claim looks for, in its order.
CREATE INDEX workflows_pending ON workflows (priority, submission) WHERE status = 'pending';
-- What a dead executor left behind.
CREATE INDEX workflows_running ON workflows (executor_id) WHERE status = 'running';

-- Inputs and results, apart from the hot row: a status update must not rewrite them.
CREATE TABLE workflow_payloads (
    workflow_id    TEXT NOT NULL,
    part           TEXT NOT NULL CHECK (part IN ('input', 'result')),
    codec          INTEGER NOT NULL,
    error_encoding TEXT,
    payload        TEXT,
    payload_bytes  BLOB,
    PRIMARY KEY (workflow_id, part)
) STRICT, WITHOUT ROWID;

-- Outcomes of steps: inserted once, never updated.
CREATE TABLE workflow_steps (
    workflow_id     TEXT NOT NULL,
    -- '' for the body, 'k.n' for arm n of the concurrent call with index k, and so on inward.
    branch          TEXT NOT NULL,
    step_index      INTEGER NOT NULL,
    -- Order of the commits of this workflow.
    seq             INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    step_name       TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('done', 'error')),
    codec           INTEGER NOT NULL,
    error_encoding  TEXT,
    output          TEXT,
    output_bytes    BLOB,
    error_message   TEXT,
    args_hash       INTEGER,
    call_site       TEXT NOT NULL,
    definition_site TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    -- The fencing token it was written under.
    epoch           INTEGER NOT NULL,
    write_id        INTEGER NOT NULL,
    started_at      INTEGER NOT NULL,
    completed_at    INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, branch, step_index)
) STRICT, WITHOUT ROWID;

-- Progress: attempts that run or failed, and error outcomes that a new workflow attempt set aside.
CREATE TABLE workflow_step_attempts (
    workflow_id     TEXT NOT NULL,
    branch          TEXT NOT NULL,
    step_index      INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    step_name       TEXT NOT NULL,
    -- running; retrying: failed, the next is due; failed: the last of its series.
    status          TEXT NOT NULL CHECK (status IN ('running', 'retrying', 'failed')),
    error_message   TEXT,
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    next_attempt_at INTEGER,
    PRIMARY KEY (workflow_id, branch, step_index, attempt)
) STRICT, WITHOUT ROWID;

-- Outcomes and, for steps without one, their latest attempt.
CREATE VIEW workflow_step_progress AS
    SELECT workflow_id, branch, step_index, step_name, status, attempts AS attempt, error_message, started_at,
           completed_at AS ended_at, NULL AS next_attempt_at
    FROM workflow_steps
    UNION ALL
    SELECT a.workflow_id, a.branch, a.step_index, a.step_name, a.status, a.attempt, a.error_message, a.started_at,
           a.ended_at, a.next_attempt_at
    FROM workflow_step_attempts a
    WHERE NOT EXISTS (SELECT 1 FROM workflow_steps s WHERE s.workflow_id = a.workflow_id
                      AND s.branch = a.branch AND s.step_index = a.step_index)
      AND NOT EXISTS (SELECT 1 FROM workflow_step_attempts b WHERE b.workflow_id = a.workflow_id
                      AND b.branch = a.branch AND b.step_index = a.step_index AND b.attempt > a.attempt);

-- Steps in the order they came. Clustered by their key, a batch over many workflows rewrote a page for each of its rows.
DROP VIEW workflow_step_progress;

-- Outcomes of steps: inserted once, never updated.
CREATE TABLE workflow_steps_in_order (
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
) STRICT;

INSERT INTO workflow_steps_in_order SELECT * FROM workflow_steps;
DROP TABLE workflow_steps;
ALTER TABLE workflow_steps_in_order RENAME TO workflow_steps;

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

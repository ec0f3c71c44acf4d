//! What claims and looks read, counted in pages: functions hide their plans.

use std::time::Duration;

use durable_tests::postgres;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::support::{connect, eventually, execute, quick, runtime, source, sum_of};

/// More than a deeper index and a fuller page make; a scan of what is there has hundreds.
const SLACK: i64 = 120;

/// Workflows, each with an input.
async fn insert(url: &str, prefix: &str, status: &str, queue: &str, rows: u32) {
    let mut connection = connect(url).await;
    let workflows = format!(
        "INSERT INTO durable.workflows (workflow_id, name, version, status, queue, epoch, seed, write_id)
         SELECT '{prefix}' || i, 'name', 1, '{status}', '{queue}', 1, 0, 0 FROM generate_series(1, {rows}) i"
    );
    execute(&mut connection, &workflows).await;
    let inputs = format!(
        "INSERT INTO durable.workflow_payloads (workflow_id, part, codec, payload)
         SELECT '{prefix}' || i, 'input', 1, '{{}}' FROM generate_series(1, {rows}) i"
    );
    execute(&mut connection, &inputs).await;
}

/// A database whose tables nobody analyzes, and a session that has its plans from when they were empty.
async fn planned_on_empty_tables() -> (String, PgConnection) {
    let url = postgres::fresh_database().await;
    runtime(&url).await.shutdown().await;
    let mut connection = connect(&url).await;
    execute(&mut connection, "ALTER TABLE durable.workflows SET (autovacuum_enabled = false)").await;
    execute(&mut connection, "INSERT INTO durable.writers (executor_id, writer) VALUES ('me', 0)").await;
    let claim = source("store/claim/claim_due.postgres.sql");
    execute(&mut connection, &format!("PREPARE claim AS {claim}")).await;
    let look = source("store/executor/look.postgres.sql");
    execute(&mut connection, &format!("PREPARE look AS {look}")).await;
    // So often that the server takes to a plan for all parameters; two workflows, so that each statement has run.
    insert(&url, "first", "pending", "default", 20).await;
    for _ in 0..10 {
        pages(&mut connection, CLAIM_TWO).await;
        pages(&mut connection, LOOK).await;
    }
    execute(&mut connection, "DELETE FROM durable.workflows").await;
    (url, connection)
}

const CLAIM_TWO: &str = "claim ('me', 0, 1, NULL, '{name}', '{1}', 2, 3, false, 0)";
const CLAIM_TEN: &str = "claim ('me', 0, 1, NULL, '{name}', '{1}', 10, 3, false, 0)";
const LOOK: &str = "look ('{name}', '{1}', NULL)";

/// Pages that a statement touches, undone.
async fn pages(connection: &mut PgConnection, statement: &str) -> (f64, i64) {
    execute(connection, "BEGIN").await;
    let sql = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {statement}");
    let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut *connection).await.unwrap();
    let plan: Value = serde_json::from_str(row.try_get_unchecked(0).unwrap()).unwrap();
    execute(connection, "ROLLBACK").await;
    let plan = &plan[0]["Plan"];
    let touched = plan["Shared Hit Blocks"].as_i64().unwrap() + plan["Shared Read Blocks"].as_i64().unwrap();
    (plan["Actual Rows"].as_f64().unwrap(), touched)
}

/// Pages of a claim of ten and of a look, with so many ended, pending, and pending of a name that nobody has.
async fn touched(ended: u32, pending: u32, unserved: u32) -> (i64, i64) {
    let (url, mut connection) = planned_on_empty_tables().await;
    insert(&url, "e", "done", "default", ended).await;
    insert(&url, "u", "pending", "default", unserved).await;
    execute(&mut connection, "UPDATE durable.workflows SET name = 'a stranger' WHERE workflow_id LIKE 'u%'").await;
    insert(&url, "p", "pending", "default", pending).await;
    execute(&mut connection, "VACUUM durable.workflows").await;
    let (claimed, claim) = pages(&mut connection, CLAIM_TEN).await;
    assert!((claimed - 10.0).abs() < f64::EPSILON, "{claimed} claimed");
    (claim, pages(&mut connection, LOOK).await.1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_and_a_look_read_neither_what_has_ended_nor_the_backlog_nor_what_nobody_has() {
    let (claim, look) = touched(0, 500, 0).await;
    for (ended, pending, unserved) in [(20_000, 500, 0), (0, 20_000, 0), (0, 500, 20_000)] {
        let (more, look_more) = touched(ended, pending, unserved).await;
        let state = format!("{ended} ended, {pending} pending, {unserved} of a stranger");
        assert!(more <= claim + SLACK, "claim: {claim} pages before, {more} with {state}");
        assert!(look_more <= look + SLACK, "look: {look} pages before, {look_more} with {state}");
    }
}

/// The way in of a busy key's backlog: fifty thousand runs that wait for one, and ten that need not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_does_not_read_the_backlog_of_a_partition_without_room() {
    let mut touched = Vec::new();
    for backlog in [100, 50_000] {
        let (url, mut connection) = planned_on_empty_tables().await;
        execute(&mut connection, "INSERT INTO durable.queues (name, partition_concurrency) VALUES ('q', 1)").await;
        execute(&mut connection, "INSERT INTO durable.executors (executor_id, name) VALUES ('me', 'me')").await;
        insert(&url, "busy", "pending", "q", backlog).await;
        execute(&mut connection, "UPDATE durable.workflows SET partition_key = 'busy'").await;
        let run = "UPDATE durable.workflows SET status = 'running', executor_id = 'me' WHERE workflow_id = 'busy1'";
        execute(&mut connection, run).await;
        insert(&url, "free", "pending", "q", 10).await;
        let free = "UPDATE durable.workflows SET partition_key = workflow_id WHERE workflow_id LIKE 'free%'";
        execute(&mut connection, free).await;
        execute(&mut connection, "VACUUM durable.workflows").await;
        let (claimed, pages) = pages(&mut connection, CLAIM_TEN).await;
        assert!((claimed - 10.0).abs() < f64::EPSILON, "{claimed} claimed");
        touched.push(pages);
    }
    assert!(touched[1] <= touched[0] + SLACK, "{touched:?} pages");
}

/// One as it is submitted, one as it is claimed, one as it ends: what a snapshot that is held for long makes the table
/// keep of each run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_in_a_queue_writes_three_versions_of_its_row() {
    const RUNS: i64 = 200;
    let url = postgres::fresh_database().await;
    let runtime = runtime(&url).await;
    let client = quick(&url).client().await.unwrap();
    let starts = (0..RUNS).map(|n| sum_of::start(u64::try_from(n).unwrap(), 2));
    for run in client.start_many(starts).await.unwrap() {
        run.result().await.unwrap();
    }
    runtime.shutdown().await;
    drop(client);
    let mut connection = connect(&url).await;
    // The sessions tell as they end.
    eventually(Duration::from_secs(20), "three versions of each", async || {
        let sql = "SELECT coalesce(n_tup_ins, 0) || ' ' || coalesce(n_tup_upd, 0) FROM pg_stat_user_tables
                   WHERE schemaname = 'durable' AND relname = 'workflows'";
        let written: String = sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
        written == format!("{RUNS} {}", 2 * RUNS)
    })
    .await;
}

//! The plans: the statements of the hot path reach `workflows` by its primary key alone, whatever the table was like
//! when the plan was made; claims and beats cost nothing for what has ended.

use durable_tests::postgres;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::support::{connect, execute, runtime, source};

/// The settings of every engine connection, and those of a writer, as the library has them.
fn pins(writer: bool) -> String {
    let text = source("store/connection.rs");
    let list = text.split("const SESSION").nth(1).unwrap().split("];").next().unwrap();
    let words: Vec<&str> = list.split("(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let values: Vec<&str> = list.split("\", \"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(words.len() == values.len() && words.contains(&"enable_seqscan"), "{words:?}");
    let mut pins: Vec<String> =
        words.iter().zip(values).map(|(word, value)| format!("SET {word} = '{value}'")).collect();
    if writer {
        let more = text.split("const PINS: &str = \"").nth(1).unwrap().split('"').next().unwrap();
        assert!(more.contains("force_generic_plan"));
        pins.push(more.to_owned());
    }
    pins.join("; ")
}

/// A statement prepared on a connection, and its plan whenever asked.
struct Prepared {
    connection: PgConnection,
    arguments: String,
}

/// A value of a type, as it is in a batch of a hundred.
fn sample(kind: &str) -> String {
    let one = |kind: &str, n: u32| match kind {
        "text" => format!("w{n}"),
        "boolean" => "true".to_owned(),
        "bytea" => "x".to_owned(),
        "timestamp with time zone" => "2026-01-01".to_owned(),
        _ => "1".to_owned(),
    };
    match kind.strip_suffix("[]") {
        Some(kind) => format!("'{{{}}}'", (0..100).map(|n| one(kind, n)).collect::<Vec<_>>().join(",")),
        None => format!("'{}'", one(kind, 1)),
    }
}

impl Prepared {
    /// As behind a pooler: planned each time, for the values that it is sent with.
    async fn unnamed(url: &str, path: &str) -> Self {
        let source = source("store/connection.rs");
        let begin = source.split("const BEGIN: &str = \"").nth(1).unwrap().split('"').next().unwrap();
        assert!(begin.contains("SET LOCAL enable_seqscan = off"));
        let settings = begin.split(';').skip(1).filter(|sql| sql.contains("SET LOCAL"));
        let settings = settings.map(|sql| sql.replace("LOCAL ", "")).collect::<Vec<_>>().join(";");
        let mut prepared = Self::new(url, &format!("{settings}; SET plan_cache_mode = force_custom_plan"), path).await;
        let types = "SELECT unnest(parameter_types)::text FROM pg_prepared_statements WHERE name = 'statement'";
        let types: Vec<String> = sqlx::query_scalar(types).fetch_all(&mut prepared.connection).await.unwrap();
        let values: Vec<String> = types.iter().map(|kind| sample(kind)).collect();
        prepared.arguments = format!("({})", values.join(", "));
        prepared
    }

    async fn new(url: &str, settings: &str, path: &str) -> Self {
        let mut connection = connect(url).await;
        execute(&mut connection, settings).await;
        let text = source(path);
        let parameters = (1..).take_while(|n| text.contains(&format!("${n}"))).count();
        let arguments = vec!["NULL"; parameters].join(", ");
        execute(&mut connection, &format!("PREPARE statement AS {text}")).await;
        let arguments = if arguments.is_empty() { arguments } else { format!("({arguments})") };
        // The plan is made now and kept.
        execute(&mut connection, &format!("EXPLAIN EXECUTE statement {arguments}")).await;
        Self { connection, arguments }
    }

    async fn plan(&mut self) -> Vec<Node> {
        let sql = format!("EXPLAIN (FORMAT JSON) EXECUTE statement {}", self.arguments);
        let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut self.connection).await.unwrap();
        let text: String = row.try_get_unchecked(0).unwrap();
        let plan: Value = serde_json::from_str(&text).unwrap();
        let mut nodes = Vec::new();
        walk(&plan[0]["Plan"], &mut nodes);
        nodes
    }
}

#[derive(Debug)]
struct Node {
    kind: String,
    table: String,
    index: String,
    condition: String,
}

fn walk(plan: &Value, nodes: &mut Vec<Node>) {
    let text = |key: &str| plan[key].as_str().unwrap_or_default().to_owned();
    nodes.push(Node {
        kind: text("Node Type"),
        table: text("Relation Name"),
        index: text("Index Name"),
        condition: text("Index Cond"),
    });
    for part in plan["Plans"].as_array().into_iter().flatten() {
        walk(part, nodes);
    }
}

/// Reads of a table, which a change of it is not.
fn reads<'a>(nodes: &'a [Node], table: &str) -> Vec<&'a Node> {
    nodes.iter().filter(|node| node.table == table && node.kind != "ModifyTable").collect()
}

fn has_no_scan_and_no_table_join(nodes: &[Node]) {
    for node in nodes {
        let bad = ["Seq Scan", "Hash Join", "Merge Join", "Bitmap Heap Scan", "Sort"];
        assert!(!bad.contains(&node.kind.as_str()), "{node:?} in {nodes:#?}");
    }
}

/// The contract of the write path.
fn reaches_workflows_by_primary_key(nodes: &[Node], accesses: usize) {
    has_no_scan_and_no_table_join(nodes);
    let reads = reads(nodes, "workflows");
    assert_eq!(reads.len(), accesses, "{nodes:#?}");
    for node in reads {
        assert_eq!((node.kind.as_str(), node.index.as_str()), ("Index Scan", "workflows_pkey"), "{nodes:#?}");
        assert!(node.condition.contains("workflow_id = "), "{node:?}");
    }
}

/// How many rows the largest state has.
fn many() -> u32 {
    std::env::var("DURABLE_TEST_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(200_000)
}

/// Running workflows.
async fn load(connection: &mut PgConnection, rows: u32) {
    let sql = format!(
        "INSERT INTO durable.workflows (workflow_id, name, version, status, executor_id, epoch, seed, write_id)
         SELECT 'w' || i, 'name', 1, 'running', 'e' || i % 3, 1, 0, 0 FROM generate_series(1, {rows}) i
         ON CONFLICT DO NOTHING"
    );
    execute(connection, &sql).await;
}

/// A database with the tables, which nobody analyzes but the test.
async fn tables() -> (String, PgConnection) {
    let url = postgres::fresh_database().await;
    runtime(&url).await.shutdown().await;
    let mut connection = connect(&url).await;
    for table in ["workflows", "workflow_steps", "workflow_payloads", "workflow_step_attempts", "writers", "executors"]
    {
        execute(&mut connection, &format!("ALTER TABLE durable.{table} SET (autovacuum_enabled = false)")).await;
    }
    (url, connection)
}

/// The write statements in one state: planned after `before`, looked at again after `then`.
async fn write_path_keeps_its_plan(before: impl AsyncFnOnce(&mut PgConnection), rows_then: u32) {
    let (url, mut connection) = tables().await;
    before(&mut connection).await;
    // What each of them asks of `workflows`: once for each of step, attempt, result and settle; once for a step.
    for (path, accesses) in [("batch", 4), ("step", 1)] {
        let path = format!("store/write/{path}.postgres.sql");
        let mut prepared = Prepared::new(&url, &pins(true), &path).await;
        let mut unnamed = Prepared::unnamed(&url, &path).await;
        reaches_workflows_by_primary_key(&prepared.plan().await, accesses);
        reaches_workflows_by_primary_key(&unnamed.plan().await, accesses);
        load(&mut connection, rows_then).await;
        reaches_workflows_by_primary_key(&prepared.plan().await, accesses);
        reaches_workflows_by_primary_key(&unnamed.plan().await, accesses);
        execute(&mut connection, "DELETE FROM durable.workflows WHERE false").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_path_goes_by_primary_key_if_planned_empty_and_never_analyzed() {
    write_path_keeps_its_plan(async |_| {}, 20_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_path_goes_by_primary_key_if_analyzed_while_empty() {
    write_path_keeps_its_plan(async |connection| execute(connection, "ANALYZE durable.workflows").await, 20_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_path_goes_by_primary_key_if_analyzed_at_200_rows() {
    let before = async |connection: &mut PgConnection| {
        load(connection, 200).await;
        execute(connection, "ANALYZE durable.workflows").await;
    };
    write_path_keeps_its_plan(before, 20_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_path_goes_by_primary_key_if_loaded_and_never_analyzed() {
    write_path_keeps_its_plan(async |connection| load(connection, 20_000).await, 20_001).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_path_goes_by_primary_key_if_large_and_analyzed() {
    let before = async |connection: &mut PgConnection| {
        load(connection, many()).await;
        execute(connection, "VACUUM ANALYZE durable.workflows").await;
    };
    write_path_keeps_its_plan(before, many() + 1).await;
}

/// Other statements and the indexes they may read tables by.
const OTHERS: [(&str, &[(&str, &str)]); 12] = [
    (
        "claim/release_dead",
        &[
            ("workflows", "workflows_running"),
            ("workflows", "workflows_pkey"),
            ("workflow_steps", "workflow_steps_pkey"),
        ],
    ),
    ("claim/release_orphans", &[("workflows", "workflows_running")]),
    ("workflow/resume", &[("workflows", "workflows_pkey")]),
    ("workflow/retry", &[("workflows", "workflows_pkey")]),
    ("step/outcomes", &[("workflow_steps", "workflow_steps_pkey")]),
    ("step/attempts", &[("workflow_step_attempts", "workflow_step_attempts_pkey")]),
    ("workflow/cancel", &[("workflows", "workflows_pkey"), ("workflows", "workflows_pkey")]),
    ("workflow/taken_away", &[("workflows", "workflows_pkey")]),
    ("workflow/unsettled", &[("workflows", "workflows_pkey")]),
    ("workflow/workflow", &[("workflows", "workflows_pkey")]),
    ("write/inspect_workflows", &[("workflows", "workflows_pkey")]),
    ("write/inspect_steps", &[("workflow_steps", "workflow_steps_pkey")]),
];

fn goes_by(path: &str, nodes: &[Node], indexes: &[(&str, &str)]) {
    let mut found = Vec::new();
    for table in ["workflows", "workflow_steps", "workflow_payloads", "workflow_step_attempts"] {
        for node in reads(nodes, table) {
            assert!(node.kind.starts_with("Index "), "{path}: {node:?} in {nodes:#?}");
            assert!(node.index == "workflows_pending" || !node.condition.is_empty(), "{path}: {node:?}");
            found.push((node.table.as_str(), node.index.as_str()));
        }
    }
    let mut wanted = indexes.to_vec();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{path}: {nodes:#?}");
}

/// Ended and pending workflows with a step each.
async fn ended_and_pending(connection: &mut PgConnection, ended: u32, pending: u32) {
    let workflows = |prefix: &str, status: &str, rows: u32| {
        format!(
            "INSERT INTO durable.workflows (workflow_id, name, version, status, epoch, seed, write_id)
             SELECT '{prefix}' || i, 'name', 1, '{status}', 1, 0, 0 FROM generate_series(1, {rows}) i"
        )
    };
    execute(connection, &workflows("e", "done", ended)).await;
    execute(connection, &workflows("p", "pending", pending)).await;
    let steps = "INSERT INTO durable.workflow_steps (workflow_id, branch, step_index, seq, kind, step_name, status, codec,
                        call_site, definition_site, attempts, epoch, write_id, started_at, completed_at)
                 SELECT workflow_id, '', 0, 0, 'step', 's', 'done', 1, '', '', 1, 1, 0, now(), now() FROM durable.workflows";
    execute(connection, steps).await;
    let inputs = "INSERT INTO durable.workflow_payloads (workflow_id, part, codec, payload)
                  SELECT workflow_id, 'input', 1, '{}' FROM durable.workflows";
    execute(connection, inputs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_beats_and_reads_go_by_index_even_if_planned_on_empty_tables() {
    let (url, mut connection) = tables().await;
    let settings = format!("{}; SET plan_cache_mode = force_generic_plan", pins(false));
    let mut prepared = Vec::new();
    for (path, indexes) in OTHERS {
        let statement = Prepared::new(&url, &settings, &format!("store/{path}.postgres.sql")).await;
        prepared.push((path, indexes, statement));
    }
    ended_and_pending(&mut connection, 20_000, 20_000).await;
    for (path, indexes, statement) in &mut prepared {
        goes_by(path, &statement.plan().await, indexes);
    }
    execute(&mut connection, "ANALYZE").await;
    for (path, indexes, statement) in &mut prepared {
        goes_by(path, &statement.plan().await, indexes);
    }
}

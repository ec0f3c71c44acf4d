//! Databases of earlier versions: what they hold goes on under the schema of today.

use durable_tests::sqlite;
use sqlx::{Connection, SqliteConnection};

use crate::support::{runtime, sum_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_first_schema_goes_on_from_its_last_step() {
    let file = sqlite::fresh_database();
    {
        let mut connection = SqliteConnection::connect(&format!("{}?mode=rwc", file.url())).await.unwrap();
        let first = concat!(
            "CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT;",
            "INSERT INTO migrations VALUES (1, 'init', '37ca0a350a9c3b3d', 0);",
            include_str!("../../../../migrations/sqlite/0001_init.sql"),
            "INSERT INTO workflows (workflow_id, name, version, status, epoch, seed, write_id, created_at, updated_at)
             VALUES ('old', 'sum_of', 1, 'pending', 1, 0, 0, 0, 0);",
            "INSERT INTO workflow_payloads (workflow_id, part, codec, payload) VALUES ('old', 'input', 1, '{\"first\":1,\"steps\":3}');",
            "INSERT INTO workflow_steps VALUES
             ('old', '', 0, 1, 'step', 'echo', 'done', 1, NULL, '40', NULL, NULL, NULL, 'a.rs:1:1', 'a.rs:2:2', 1, 1, 7, 0, 0);",
        );
        sqlx::raw_sql(first).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
    let runtime = runtime(file.url()).await;
    let handle = runtime.enter(async { durable::handle::<sum_of>("old") }).await;
    let sum = tokio::time::timeout(std::time::Duration::from_secs(90), handle.result()).await.unwrap().unwrap();
    assert_eq!(sum, 40 + 2 + 3);
    runtime.shutdown().await;
}

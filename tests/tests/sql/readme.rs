//! What the README prints as SQL runs as it stands.

use durable_tests::{postgres, sqlite};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use crate::support::{connect, library, runtime};

/// The blocks of SQL below a heading.
fn blocks(heading: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(library().join("../README.md")).unwrap();
    let (_, rest) = readme.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let blocks: Vec<String> =
        section.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect();
    assert!(!blocks.is_empty());
    blocks
}

async fn run_postgres(connection: &mut PgConnection, block: &str) -> usize {
    let mut run = 0;
    for statement in block.split(";\n").filter(|statement| !statement.trim().is_empty()) {
        let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).fetch_all(&mut *connection).await;
        assert!(done.is_ok(), "{statement}: {done:?}");
        run += 1;
    }
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statements_of_the_readme_run_as_printed() {
    let url = postgres::fresh_database().await;
    runtime(&url).await.shutdown().await;
    let mut connection = connect(&url).await;
    let look = blocks("Look at it with SQL");
    // `enqueue` is named with its schema; to look, the path is set as the text says.
    assert_eq!(run_postgres(&mut connection, &blocks("Queues")[0]).await, 2);
    sqlx::raw_sql("SET search_path = durable").execute(&mut connection).await.unwrap();
    assert!(run_postgres(&mut connection, &look[0]).await >= 7);

    let file = sqlite::fresh_database();
    runtime(file.url()).await.shutdown().await;
    let mut connection = SqliteConnection::connect(file.url()).await.unwrap();
    let statements: Vec<&str> = look[1].split(";\n").filter(|statement| !statement.trim().is_empty()).collect();
    assert!(statements.len() >= 3, "{statements:?}");
    for statement in statements {
        let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).fetch_all(&mut connection).await;
        assert!(done.is_ok(), "{statement}: {done:?}");
    }
}

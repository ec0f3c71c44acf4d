//! A claim of a hundred, with few rows and with many: the library's own statement, undone each time.

use std::time::Instant;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};

use crate::Store;
use crate::database::Database;
use crate::report::median;

/// Rows that a claim meets.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) pending: i64,
    pub(super) finished: i64,
}

const POSTGRES: &str = include_str!("../../../durable/src/store/claim/claim_due.postgres.sql");
const SQLITE: &str = include_str!("../../../durable/src/store/claim/claim_due.sqlite.sql");
const COLUMNS: &str = "(workflow_id, name, version, status, seed, write_id, created_at, updated_at, completed_at)";

/// Milliseconds of a claim of a hundred, after filling the empty tables.
pub(super) async fn milliseconds(database: &Database, rows: Rows, rounds: usize) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    match database.store {
        Store::Postgres => {
            let mut connection = PgConnection::connect(&database.url).await?;
            let fill = format!(
                "DELETE FROM durable.workflows;
                 INSERT INTO durable.workflows {COLUMNS}
                 SELECT 'f' || n, 'steps', 1, 'done', 0, 0, now(), now(), now() FROM generate_series(1, {}) n;
                 INSERT INTO durable.workflows {COLUMNS}
                 SELECT 'p' || n, 'steps', 1, 'pending', 0, 0, now(), now(), NULL FROM generate_series(1, {}) n;
                 INSERT INTO durable.writers (executor_id, writer) VALUES ('bench', 0) ON CONFLICT DO NOTHING;
                 VACUUM ANALYZE durable.workflows",
                rows.finished, rows.pending
            );
            for statement in fill.split(';') {
                sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await?;
            }
            sqlx::raw_sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off")
                .execute(&mut connection)
                .await?;
            for _ in 0..rounds * 10 {
                let mut tx = connection.begin().await?;
                let begun = Instant::now();
                let claimed = sqlx::query(POSTGRES)
                    .bind("bench")
                    .bind(0_i32)
                    .bind(1_i32)
                    .bind(vec!["steps"])
                    .bind(vec![1_i32])
                    .bind(100_i64)
                    .bind(3_i32)
                    .bind(false)
                    .fetch_all(&mut *tx)
                    .await?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
                anyhow::ensure!(claimed.len() == 100, "a claim took {} of a hundred", claimed.len());
                tx.rollback().await?;
            }
        }
        Store::Sqlite => {
            let mut connection = SqliteConnection::connect(&database.url).await?;
            let series = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s LIMIT";
            let fill = format!(
                "DELETE FROM workflows;
                 INSERT INTO workflows {COLUMNS} {series} {}) SELECT 'f' || n, 'steps', 1, 'done', 0, 0, 0, 0, 0 FROM s;
                 INSERT INTO workflows {COLUMNS} {series} {}) SELECT 'p' || n, 'steps', 1, 'pending', 0, 0, 0, 0, NULL FROM s;
                 INSERT INTO writers (executor_id, writer) VALUES ('bench', 0) ON CONFLICT DO NOTHING",
                rows.finished.max(1),
                rows.pending
            );
            sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut connection).await?;
            for _ in 0..rounds * 10 {
                let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
                let begun = Instant::now();
                let claimed = sqlx::query(SQLITE)
                    .bind("bench")
                    .bind(0)
                    .bind(1)
                    .bind("[[\"steps\",1]]")
                    .bind(100)
                    .bind(0_i64)
                    .bind(3)
                    .bind(false)
                    .fetch_all(&mut *tx)
                    .await?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
                let first: String =
                    claimed.first().ok_or_else(|| anyhow::anyhow!("nothing was claimed"))?.try_get(0)?;
                anyhow::ensure!(claimed.len() == 100 && first.starts_with('p'), "a claim took {}", claimed.len());
                tx.rollback().await?;
            }
        }
    }
    Ok(median(times))
}

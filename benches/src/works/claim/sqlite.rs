//! SQLite: the two cases are two files in one folder.

use std::time::Instant;

use durable::Builder;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::{CLAIMS, LIMIT, Rows, WARM_UP};
use crate::database::Database;
use crate::raw;

const CLAIM: &str = include_str!("../../../../durable/src/store/claim/claim_due.sqlite.sql");

/// Milliseconds of each claim, with few and with many.
pub(super) async fn claims(database: &Database, few: Rows, many: Rows) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let mut few = Case::make(&format!("{}.few", database.url), few).await?;
    let mut many = Case::make(&database.url, many).await?;
    for _ in 0..WARM_UP + CLAIMS {
        few.claim().await?;
        many.claim().await?;
    }
    Ok((few.times.split_off(WARM_UP), many.times.split_off(WARM_UP)))
}

struct Case {
    connection: SqliteConnection,
    times: Vec<f64>,
}

impl Case {
    async fn make(url: &str, rows: Rows) -> anyhow::Result<Self> {
        let runtime = Builder::new().url(url).build().await?;
        runtime.shutdown().await;
        drop(runtime);
        fill(url, rows).await?;
        Ok(Self { connection: raw::sqlite(url).await?, times: Vec::new() })
    }

    async fn claim(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let claimed = sqlx::query(CLAIM)
            .bind("bench")
            .bind(0_i32)
            .bind(1_i32)
            .bind("[[\"steps\",1]]")
            .bind(LIMIT)
            .bind(0_i64)
            .bind(10_i32)
            .bind(false)
            .fetch_all(&mut self.connection)
            .await?;
        self.times.push(begun.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(i64::try_from(claimed.len())? == LIMIT, "a claim took {} of {LIMIT}", claimed.len());
        Ok(())
    }
}

/// Fills the empty table in the order of its keys, so that every page is written once, and all of it is on the disk at the
/// end: the claims would wait for it.
async fn fill(url: &str, rows: Rows) -> anyhow::Result<()> {
    let mut connection = raw::sqlite(url).await?;
    let Rows { pending, finished } = rows;
    let fill = format!(
        "PRAGMA synchronous = OFF;
         PRAGMA cache_size = -262144;
         WITH RECURSIVE s(n) AS (SELECT 1 WHERE {finished} > 0 UNION ALL SELECT n + 1 FROM s WHERE n < {finished})
         INSERT INTO workflows (workflow_id, name, version, status, executor_id, epoch, attempts, seed, write_id,
                                created_at, started_at, updated_at, completed_at)
         SELECT printf('f%08d', n), 'steps', 1, 'done', '01910000-0000-7000-8000-000000000000', 1, 1, n, n, n, n, n, n
         FROM s;
         WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {pending})
         INSERT INTO workflows (workflow_id, name, version, status, seed, write_id, created_at, updated_at)
         SELECT printf('p%08d', n), 'steps', 1, 'pending', n, n, n, n FROM s;
         INSERT INTO writers (executor_id, writer) VALUES ('bench', 0);
         PRAGMA synchronous = FULL;
         PRAGMA wal_checkpoint(TRUNCATE)"
    );
    sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

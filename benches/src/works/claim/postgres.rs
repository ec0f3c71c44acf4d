//! Postgres: the two cases are two schemas in one database.

use std::time::Instant;

use durable::Builder;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{CLAIMS, LIMIT, Rows, WARM_UP};
use crate::database::Database;

const CLAIM: &str = include_str!("../../../../durable/src/store/claim/claim_due.postgres.sql");

/// What the library's connections are pinned to.
const PINNED: [(&str, &str); 5] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];

/// Milliseconds of each claim, with few and with many.
pub(super) async fn claims(database: &Database, few: Rows, many: Rows) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let mut few = Case::make(database, "durable_few", few).await?;
    let mut many = Case::make(database, "durable", many).await?;
    for _ in 0..WARM_UP + CLAIMS {
        few.claim().await?;
        many.claim().await?;
    }
    Ok((few.times.split_off(WARM_UP), many.times.split_off(WARM_UP)))
}

struct Case {
    connection: PgConnection,
    sql: String,
    times: Vec<f64>,
}

impl Case {
    async fn make(database: &Database, schema: &'static str, rows: Rows) -> anyhow::Result<Self> {
        Builder::new().url(&database.url).schema(schema).build().await?.shutdown().await;
        fill(&database.url, schema, rows).await?;
        let options = database.url.parse::<PgConnectOptions>()?.options(PINNED);
        let connection = PgConnection::connect_with(&options).await?;
        let sql = CLAIM.replace("durable.", &format!("{schema}."));
        Ok(Self { connection, sql, times: Vec::new() })
    }

    async fn claim(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let claimed = sqlx::query(AssertSqlSafe(self.sql.as_str()))
            .bind("bench")
            .bind(0_i32)
            .bind(1_i32)
            .bind(None::<Vec<&str>>)
            .bind(vec!["steps"])
            .bind(vec![1_i32])
            .bind(i32::try_from(LIMIT)?)
            .bind(10_i32)
            .bind(false)
            .bind(0_i32)
            .fetch_all(&mut self.connection)
            .await?;
        self.times.push(begun.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(i64::try_from(claimed.len())? == LIMIT, "a claim took {} of {LIMIT}", claimed.len());
        Ok(())
    }
}

/// Fills the empty table without its indexes and makes them again: a fraction of the time of inserting into them.
async fn fill(url: &str, schema: &str, rows: Rows) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    let indexes: Vec<String> = sqlx::query_scalar(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = $1 AND tablename = 'workflows' ORDER BY indexname",
    )
    .bind(schema)
    .fetch_all(&mut connection)
    .await?;
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT indexname FROM pg_indexes WHERE schemaname = $1 AND tablename = 'workflows' AND indexname <> 'workflows_pkey'",
    )
    .bind(schema)
    .fetch_all(&mut connection)
    .await?;
    let Rows { pending, finished } = rows;
    let fill = format!(
        "SET search_path = {schema};
         SET synchronous_commit = off;
         SET maintenance_work_mem = '512MB';
         ALTER TABLE workflows DROP CONSTRAINT workflows_pkey;
         DROP INDEX {};
         INSERT INTO workflows (workflow_id, name, version, status, executor_id, epoch, attempts, seed, write_id,
                                started_at, completed_at)
         SELECT 'f' || to_char(n, 'FM00000000'), 'steps', 1, 'done', '01910000-0000-7000-8000-000000000000', 1, 1, n, n,
                now(), now()
         FROM generate_series(1, {finished}) n;
         INSERT INTO workflows (workflow_id, name, version, status, seed, write_id)
         SELECT 'p' || to_char(n, 'FM00000000'), 'steps', 1, 'pending', n, n FROM generate_series(1, {pending}) n;
         INSERT INTO writers (executor_id, writer) VALUES ('bench', 0);
         {};
         VACUUM ANALYZE workflows;
         CHECKPOINT",
        names.join(", "),
        indexes.join(";\n")
    );
    // One by one: `VACUUM` does not run in a block, which several in one text are.
    for statement in fill.split(';') {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await?;
    }
    Ok(())
}

//! The raw limits: what the same driver does on the same database without us.

use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, SqliteConnection};

use crate::Store;
use crate::database::Database;

const COLUMNS: &str =
    "(workflow_id text NOT NULL, branch text NOT NULL, step_index int NOT NULL, step_name text NOT NULL,
    output text, started_at bigint, completed_at bigint, PRIMARY KEY (workflow_id, branch, step_index))";

/// What a commit holds.
#[derive(Clone)]
pub(crate) struct Batch {
    rows: usize,
    output: Arc<str>,
}

impl Batch {
    /// A hundred steps with next to no output.
    pub(crate) fn of_steps() -> Self {
        Self { rows: 100, output: "1".into() }
    }

    /// Up to a hundred outputs, as many as the library puts into one statement: 8 MiB.
    pub(crate) fn of_payloads(output: &str) -> Self {
        Self { rows: ((8 << 20) / output.len()).clamp(1, 100), output: output.into() }
    }
}

/// One-row inserts, one after the other on one connection: rows per second.
pub(crate) async fn single_rows(database: &Database, rows: u32) -> anyhow::Result<f64> {
    let id = fresh_id();
    let url = database.url.clone();
    // In a task, as the library's work is: the main thread of the runtime is slower.
    let task = match database.store {
        Store::Postgres => tokio::spawn(async move {
            let mut connection = postgres(&url).await?;
            let begun = Instant::now();
            for n in 0..rows {
                sqlx::query("INSERT INTO raw VALUES ($1, '', $2, 'noop', '1', 0, 0)")
                    .bind(&id)
                    .bind(i32::try_from(n)?)
                    .execute(&mut connection)
                    .await?;
            }
            Ok::<_, anyhow::Error>(f64::from(rows) / begun.elapsed().as_secs_f64())
        }),
        Store::Sqlite => tokio::spawn(async move {
            let mut connection = sqlite(&url).await?;
            let begun = Instant::now();
            for n in 0..rows {
                sqlx::query("INSERT INTO raw VALUES (?, '', ?, 'noop', '1', 0, 0)")
                    .bind(&id)
                    .bind(n)
                    .execute(&mut connection)
                    .await?;
            }
            Ok(f64::from(rows) / begun.elapsed().as_secs_f64())
        }),
    };
    task.await?
}

/// So many batches: on Postgres by `unnest` on two connections, on SQLite by one multi-row `VALUES`. Rows per second.
pub(crate) async fn batches(database: &Database, batch: &Batch, count: usize) -> anyhow::Result<f64> {
    match database.store {
        Store::Postgres => {
            // Made before either begins: two at once may both find no table.
            let (one, two) = (postgres(&database.url).await?, postgres(&database.url).await?);
            let one = tokio::spawn(postgres_batches(one, batch.clone(), count / 2));
            let two = tokio::spawn(postgres_batches(two, batch.clone(), count / 2));
            Ok(one.await?? + two.await??)
        }
        Store::Sqlite => tokio::spawn(sqlite_batches(sqlite(&database.url).await?, batch.clone(), count)).await?,
    }
}

async fn postgres_batches(mut connection: PgConnection, batch: Batch, count: usize) -> anyhow::Result<f64> {
    let (id, rows) = (fresh_id(), batch.rows);
    let ids = vec![id.as_str(); rows];
    let outputs = vec![&*batch.output; rows];
    let (names, times) = (vec!["noop"; rows], vec![0_i64; rows]);
    let begun = Instant::now();
    for n in 0..count {
        let indexes: Vec<i32> = (0..rows).map(|row| i32::try_from(n * rows + row)).collect::<Result<_, _>>()?;
        sqlx::query(
            "INSERT INTO raw SELECT u.id, '', u.idx, u.name, u.output, u.a, u.b
             FROM unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::int8[], $6::int8[]) u(id, idx, name, output, a, b)",
        )
        .bind(&ids)
        .bind(&indexes)
        .bind(&names)
        .bind(&outputs)
        .bind(&times)
        .bind(&times)
        .execute(&mut connection)
        .await?;
    }
    rate(count * rows, begun)
}

async fn sqlite_batches(mut connection: SqliteConnection, batch: Batch, count: usize) -> anyhow::Result<f64> {
    let (id, rows) = (fresh_id(), batch.rows);
    let values: Vec<&str> = repeat_n("(?, '', ?, 'noop', ?, 0, 0)", rows).collect();
    let text = Arc::<str>::from(format!("INSERT INTO raw VALUES {}", values.join(",")));
    let begun = Instant::now();
    for n in 0..count {
        let mut query = sqlx::query(AssertSqlSafe(Arc::clone(&text)));
        for row in 0..rows {
            query = query.bind(&id).bind(i64::try_from(n * rows + row)?).bind(&*batch.output);
        }
        query.execute(&mut connection).await?;
    }
    rate(count * rows, begun)
}

fn rate(rows: usize, begun: Instant) -> anyhow::Result<f64> {
    Ok(f64::from(u32::try_from(rows)?) / begun.elapsed().as_secs_f64())
}

/// A connection as durable as the library's, and the table.
pub(crate) async fn postgres(url: &str) -> anyhow::Result<PgConnection> {
    let options = url.parse::<sqlx::postgres::PgConnectOptions>()?.disable_statement_logging();
    let mut connection = PgConnection::connect_with(&options).await?;
    let durable =
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";
    sqlx::query(durable).execute(&mut connection).await?;
    let table = format!("CREATE TABLE IF NOT EXISTS raw {COLUMNS}");
    sqlx::raw_sql(AssertSqlSafe(table)).execute(&mut connection).await?;
    // As the library's columns are; a server that was built without it keeps its default.
    sqlx::raw_sql("ALTER TABLE raw ALTER COLUMN output SET COMPRESSION lz4").execute(&mut connection).await.ok();
    Ok(connection)
}

/// The same on SQLite, with the library's page cache.
pub(crate) async fn sqlite(url: &str) -> anyhow::Result<SqliteConnection> {
    let options = url
        .parse::<SqliteConnectOptions>()?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(std::time::Duration::from_secs(5))
        .pragma("cache_size", "-65536")
        .disable_statement_logging();
    let mut connection = SqliteConnection::connect_with(&options).await?;
    // With a rowid, as the library's steps have it: rows lie in the order they came.
    let table = format!("CREATE TABLE IF NOT EXISTS raw {COLUMNS}");
    sqlx::raw_sql(AssertSqlSafe(table)).execute(&mut connection).await?;
    Ok(connection)
}

fn fresh_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("01910000-0000-7000-8000-{:012}", NEXT.fetch_add(1, Ordering::Relaxed))
}

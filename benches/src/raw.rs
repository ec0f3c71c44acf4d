//! The raw limits: what the same driver does on the same database without us.

use std::time::Instant;

use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::Store;
use crate::database::Database;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS raw (workflow_id text NOT NULL, branch text NOT NULL, step_index int NOT NULL,
    step_name text NOT NULL, output text, started_at bigint, completed_at bigint, PRIMARY KEY (workflow_id, branch, step_index))";

/// One-row inserts, one after the other on one connection: rows per second.
pub(crate) async fn single_rows(database: &Database, rows: u32) -> anyhow::Result<f64> {
    let id = fresh_id();
    let url = database.url.clone();
    // In a task, as the library's work is: the main thread of the runtime is slower.
    let task = match database.store {
        Store::Postgres => tokio::spawn(async move {
            let mut connection = PgConnection::connect(&url).await?;
            sqlx::raw_sql(TABLE).execute(&mut connection).await?;
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

/// Inserts of 100 rows: on Postgres by `unnest` on two connections, on SQLite by one multi-row `VALUES`.
pub(crate) async fn batches(database: &Database, batches: u32) -> anyhow::Result<f64> {
    let begun = Instant::now();
    match database.store {
        Store::Postgres => {
            let (one, two) = (postgres_batches(database, batches / 2), postgres_batches(database, batches / 2));
            let (one, two) = tokio::join!(tokio::spawn(one), tokio::spawn(two));
            Ok(one?? + two??)
        }
        Store::Sqlite => {
            let mut connection = sqlite(&database.url).await?;
            let text = format!("INSERT INTO raw VALUES {}", vec!["(?, '', ?, 'noop', '1', 0, 0)"; 100].join(","));
            let text = std::sync::Arc::<str>::from(text);
            let id = fresh_id();
            for n in 0..batches {
                let mut query = sqlx::query(sqlx::AssertSqlSafe(std::sync::Arc::clone(&text)));
                for row in 0..100 {
                    query = query.bind(&id).bind(n * 100 + row);
                }
                query.execute(&mut connection).await?;
            }
            Ok(f64::from(batches * 100) / begun.elapsed().as_secs_f64())
        }
    }
}

fn postgres_batches(database: &Database, batches: u32) -> impl Future<Output = anyhow::Result<f64>> + use<> {
    let url = database.url.clone();
    async move {
        let mut connection = PgConnection::connect(&url).await?;
        // Two at once may both find no table.
        sqlx::raw_sql(TABLE).execute(&mut connection).await.ok();
        let id = fresh_id();
        let ids = vec![id.as_str(); 100];
        let (names, outputs, times) = (vec!["noop"; 100], vec!["1"; 100], vec![0_i64; 100]);
        let begun = Instant::now();
        for n in 0..batches {
            let indexes: Vec<i32> = (0..100).map(|row| i32::try_from(n * 100 + row)).collect::<Result<_, _>>()?;
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
        Ok(f64::from(batches * 100) / begun.elapsed().as_secs_f64())
    }
}

async fn sqlite(url: &str) -> anyhow::Result<SqliteConnection> {
    let options = url.parse::<sqlx::sqlite::SqliteConnectOptions>()?;
    let options = options
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
        .synchronous(sqlx::sqlite::SqliteSynchronous::Full)
        .busy_timeout(std::time::Duration::from_secs(5));
    let mut connection = SqliteConnection::connect_with(&options).await?;
    sqlx::raw_sql(TABLE).execute(&mut connection).await?;
    Ok(connection)
}

fn fresh_id() -> String {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    format!("01910000-0000-7000-8000-{:012}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

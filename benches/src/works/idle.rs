//! An executor with nothing to do: how much it says to the server.

use std::time::Duration;

use durable::Builder;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

use crate::Store;
use crate::database::Database;
use crate::report::Report;

/// Transactions per second, which are statements: an idle executor opens no blocks. Reads count too. SQLite does not
/// count.
pub(super) async fn measure(database: &Database, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    if database.store == Store::Sqlite {
        return Ok(());
    }
    // Its workers work in this database too, and would count.
    database.set_autovacuum(false).await?;
    // The tables are made before.
    transactions(database, Duration::ZERO).await?;
    let seconds: u32 = if quick { 10 } else { 20 };
    // The start, the first sweep after one grace, which tidies up after the executor before, and the end are in both, and
    // go out by the difference.
    let short = transactions(database, Duration::from_secs(6)).await?;
    let long = transactions(database, Duration::from_secs(u64::from(6 + seconds))).await?;
    database.set_autovacuum(true).await?;
    report.per_s = Some((long - short) as f64 / f64::from(seconds));
    report.note =
        Some(format!("idle: transactions of one executor in {seconds} s by pg_stat_database, reads included"));
    Ok(())
}

/// In the life of an executor that long.
async fn transactions(database: &Database, time: Duration) -> anyhow::Result<i64> {
    let before = settled(database).await?;
    let runtime = Builder::new().url(&database.url).build().await?;
    tokio::time::sleep(time).await;
    runtime.shutdown().await;
    drop(runtime);
    Ok(settled(database).await? - before)
}

/// The count once all have gone: sessions report what they did late, but no later than their end. Looks from another
/// database, so that looking does not count.
async fn settled(database: &Database) -> anyhow::Result<i64> {
    let options = database.url.parse::<PgConnectOptions>()?;
    let name = options.get_database().unwrap_or("postgres").to_owned();
    let mut connection = PgConnection::connect_with(&options.database("postgres")).await?;
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'";
    while sqlx::query_scalar::<_, i64>(sessions).bind(&name).fetch_one(&mut connection).await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Postgres 14 publishes them twice a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1";
    Ok(sqlx::query_scalar(count).bind(&name).fetch_one(&mut connection).await?)
}

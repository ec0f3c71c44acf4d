//! Replay: from the claim of a workflow with a history to the body of its first new step.
//!
//! The claim is when the database says so (`started_at`), the body when the machine does: one clock, since the server is
//! on this machine. The record of the claim, the reading of the history and the run through it lie in between.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use durable::{Builder, step, workflow};
use sqlx::{PgConnection, SqliteConnection};
use tokio::sync::mpsc;

use super::steps::noop;
use crate::database::Database;
use crate::report::Report;
use crate::{Store, raw};

const ID: &str = "replay";

/// Told when the first new step begins: microseconds since 1970.
struct Arrivals(mpsc::UnboundedSender<i64>);

#[step]
async fn arrive() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let _ = durable::state::<Arrivals>().0.send(i64::try_from(now.as_micros()).unwrap_or(0));
    // Never recorded, so that the next round finds the same history.
    std::future::pending().await
}

#[workflow]
async fn recorded(count: u32) -> u32 {
    for n in 0..count {
        noop(n).await;
    }
    arrive().await
}

/// Recorded steps per second, against one plain query of the same rows.
pub(super) async fn measure(database: &Database, count: u32, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    report.in_flight = Some(1);
    let (told, mut arrivals) = mpsc::unbounded_channel();
    let builder = Builder::new().url(&database.url).state(Arrivals(told)).cancel_grace(Duration::ZERO);
    let runtime = builder.build().await?;
    let run = runtime.enter(async { recorded::start(count).id(ID).await }).await?;
    arrivals.recv().await;
    let mut reader = Reader::connect(database).await?;
    let (mut times, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    // The first round is not measured.
    for round in 0..=rounds {
        run.cancel().await?;
        anyhow::ensure!(run.result().await.is_err(), "a cancelled run has no result");
        database.execute(&format!("UPDATE workflows SET started_at = NULL WHERE workflow_id = '{ID}'")).await?;
        run.resume().await?;
        let arrived = arrivals.recv().await.ok_or_else(|| anyhow::anyhow!("the runtime is gone"))?;
        let seconds = (arrived - reader.claimed_at().await?) as f64 / 1e6;
        let begun = Instant::now();
        let rows = reader.history().await?;
        let raw = begun.elapsed().as_secs_f64();
        anyhow::ensure!(rows == usize::try_from(count)?, "{rows} steps are recorded and not {count}");
        if round > 0 {
            times.push(seconds * 1e3);
            ours.push(f64::from(count) / seconds);
            theirs.push(f64::from(count) / raw);
        }
    }
    report.rates(ours, theirs);
    report.times(times);
    runtime.shutdown().await;
    Ok(())
}

/// A row of a history, as owned values.
type Recorded = (String, i32, i64, String, String, String, i16, Option<String>, Option<i64>, String, String, i64);

/// One connection, which keeps its prepared statements.
enum Reader {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Reader {
    async fn connect(database: &Database) -> anyhow::Result<Self> {
        Ok(match database.store {
            Store::Postgres => Self::Postgres(raw::postgres(&database.url).await?),
            Store::Sqlite => Self::Sqlite(raw::sqlite(&database.url).await?),
        })
    }

    /// Microseconds since 1970.
    async fn claimed_at(&mut self) -> anyhow::Result<i64> {
        let postgres =
            "SELECT (extract(epoch FROM started_at) * 1000000)::int8 FROM durable.workflows WHERE workflow_id = $1";
        let sqlite = "SELECT started_at FROM workflows WHERE workflow_id = ?1";
        Ok(match self {
            Self::Postgres(connection) => sqlx::query_scalar(postgres).bind(ID).fetch_one(connection).await?,
            Self::Sqlite(connection) => sqlx::query_scalar(sqlite).bind(ID).fetch_one(connection).await?,
        })
    }

    /// Rows of the history, read and dropped.
    async fn history(&mut self) -> anyhow::Result<usize> {
        let postgres = "SELECT branch, step_index, seq, kind, step_name, status, codec, output::text, args_hash,
                               call_site, definition_site, write_id
                        FROM durable.workflow_steps WHERE workflow_id = $1 ORDER BY branch, step_index";
        let sqlite = "SELECT branch, step_index, seq, kind, step_name, status, codec, output, args_hash,
                             call_site, definition_site, write_id
                      FROM workflow_steps WHERE workflow_id = ?1 ORDER BY branch, step_index";
        let rows: Vec<Recorded> = match self {
            Self::Postgres(connection) => sqlx::query_as(postgres).bind(ID).fetch_all(connection).await?,
            Self::Sqlite(connection) => sqlx::query_as(sqlite).bind(ID).fetch_all(connection).await?,
        };
        Ok(rows.len())
    }
}

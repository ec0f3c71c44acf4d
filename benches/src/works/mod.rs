//! The works, and how they are measured.

mod claim;
mod failover;

use std::sync::Arc;
use std::time::{Duration, Instant};

use durable::{Builder, Runtime, step, workflow};
use tokio::sync::Semaphore;

use crate::Store;
use crate::database::Database;
use crate::report::{Report, median};
use crate::{process, raw};

#[step]
async fn noop(n: u32) -> u32 {
    n
}

#[workflow]
async fn steps(count: u32) -> u32 {
    for n in 0..count {
        noop(n).await;
    }
    count
}

#[step]
async fn large(bytes: usize) -> String {
    "words that compress as prose does, more or less; ".chars().cycle().take(bytes).collect()
}

#[workflow]
async fn payloads(count: u32, bytes: usize) -> usize {
    let mut sum = 0;
    for _ in 0..count {
        sum += large(bytes).await.len();
    }
    sum
}

/// A work.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) name: &'static str,
    shape: Shape,
}

#[derive(Clone, Copy)]
enum Shape {
    /// This many workflows of so many steps, at most so many at a time.
    Steps { workflows: u32, steps: u32, in_flight: usize },
    /// A history of so many steps, replayed.
    Replay { steps: u32 },
    /// So many steps with outputs of so many bytes, 50 workflows at a time.
    Payload { bytes: usize, workflows: u32, steps: u32 },
    /// Nothing, for some seconds: statements per second.
    Idle,
    /// A claim of a hundred: `ratio` is the time with many rows over that with few.
    Claim,
    /// The end of an executor: `p50_ms` until its workflow runs elsewhere.
    Failover,
}

pub(crate) fn all() -> Vec<Work> {
    let throughput = |name, in_flight| Work { name, shape: Shape::Steps { workflows: 2_000, steps: 10, in_flight } };
    vec![
        Work { name: "sequential", shape: Shape::Steps { workflows: 1, steps: 1_000, in_flight: 1 } },
        throughput("throughput", 2_000),
        throughput("throughput_256", 256),
        throughput("throughput_200", 200),
        Work { name: "throughput_20", shape: Shape::Steps { workflows: 500, steps: 10, in_flight: 20 } },
        Work { name: "replay_1000", shape: Shape::Replay { steps: 1_000 } },
        Work { name: "replay_10000", shape: Shape::Replay { steps: 10_000 } },
        Work { name: "payload_1k", shape: Shape::Payload { bytes: 1 << 10, workflows: 200, steps: 10 } },
        Work { name: "payload_64k", shape: Shape::Payload { bytes: 64 << 10, workflows: 50, steps: 4 } },
        Work { name: "payload_1m", shape: Shape::Payload { bytes: 1 << 20, workflows: 10, steps: 2 } },
        Work { name: "claim", shape: Shape::Claim },
        Work { name: "failover", shape: Shape::Failover },
        Work { name: "idle", shape: Shape::Idle },
    ]
}

pub(crate) fn names() -> String {
    all().iter().map(|work| work.name).collect::<Vec<_>>().join(", ")
}

pub(crate) async fn measure(work: &Work, database: &Database, rounds: usize, quick: bool) -> anyhow::Result<Report> {
    let mut report = Report {
        work: work.name.to_owned(),
        store: if database.store == Store::Postgres { "postgres" } else { "sqlite" },
        ..Report::default()
    };
    match work.shape {
        Shape::Steps { workflows, steps, in_flight } => {
            report.in_flight = Some(in_flight);
            let runtime = runtime(database).await?;
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            // One round unmeasured: statements are prepared, pages are there.
            run_steps(&runtime, workflows, steps, in_flight).await?;
            let (mut cpu, before) = (0.0, database.counts().await?);
            let mut done = 0;
            for _ in 0..rounds {
                let used = process::cpu_us();
                ours.push(run_steps(&runtime, workflows, steps, in_flight).await?);
                cpu += process::cpu_us() - used;
                done += workflows * steps;
            }
            let after = database.counts().await?;
            for _ in 0..rounds {
                ours.push(run_steps(&runtime, workflows, steps, in_flight).await?);
                theirs.push(if in_flight == 1 {
                    raw::single_rows(database, steps).await?
                } else {
                    raw::batches(database, 400).await?
                });
            }
            if let (Some(before), Some(after)) = (before, after) {
                report.commits_per_step = Some((after.commits - before.commits) as f64 / f64::from(done));
                report.wal_bytes_per_step = Some((after.wal - before.wal) as f64 / f64::from(done));
            }
            report.cpu_us_per_step = Some(cpu / f64::from(done));
            report.rss_mib = Some(process::rss_mib());
            fill(&mut report, median(ours.split_off(rounds)), median(theirs));
            runtime.shutdown().await;
        }
        Shape::Replay { steps: count } => {
            let mut ours = Vec::new();
            for round in 0..rounds {
                ours.push(replay(database, count, round).await?);
            }
            report.per_s = Some(median(ours));
            report.in_flight = Some(1);
        }
        Shape::Payload { bytes, workflows, steps } => {
            report.in_flight = Some(50);
            let runtime = runtime(database).await?;
            let mut ours = Vec::new();
            for _ in 0..rounds {
                let begun = Instant::now();
                at_most(50, workflows, |_| runtime.enter(payloads(steps, bytes))).await?;
                ours.push(f64::from(workflows * steps) / begun.elapsed().as_secs_f64());
            }
            report.per_s = Some(median(ours));
            report.rss_mib = Some(process::rss_mib());
            runtime.shutdown().await;
        }
        Shape::Claim => {
            runtime(database).await?.shutdown().await;
            let many = if quick { (100_000, 500_000) } else { (1_000_000, 10_000_000) };
            let few = claim::Rows { pending: 10_000, finished: 0 };
            let many = claim::Rows { pending: many.0, finished: many.1 };
            let few = claim::milliseconds(database, few, rounds).await?;
            let many = claim::milliseconds(database, many, rounds).await?;
            report.p50_ms = Some(many);
            report.ratio = Some(many / few);
        }
        Shape::Failover => report.p50_ms = Some(failover::milliseconds(database, rounds.min(3)).await?),
        Shape::Idle => {
            let runtime = runtime(database).await?;
            if let Some(before) = database.counts().await? {
                let begun = Instant::now();
                tokio::time::sleep(Duration::from_secs(10)).await;
                if let Some(after) = database.counts().await? {
                    // The question itself is two of them.
                    report.per_s = Some((after.commits - before.commits - 2) as f64 / begun.elapsed().as_secs_f64());
                }
            }
            runtime.shutdown().await;
        }
    }
    Ok(report)
}

fn fill(report: &mut Report, ours: f64, raw: f64) {
    report.per_s = Some(ours);
    report.raw_per_s = Some(raw);
    report.ratio = Some(ours / raw);
}

async fn runtime(database: &Database) -> anyhow::Result<Runtime> {
    Ok(Builder::new().url(&database.url).max_running(10_000).build().await?)
}

/// Steps per second.
async fn run_steps(runtime: &Runtime, workflows: u32, count: u32, in_flight: usize) -> anyhow::Result<f64> {
    let begun = Instant::now();
    at_most(in_flight, workflows, |_| runtime.enter(steps(count))).await?;
    Ok(f64::from(workflows * count) / begun.elapsed().as_secs_f64())
}

/// Runs so many futures as tasks, so many at a time.
async fn at_most<F>(in_flight: usize, count: u32, mut make: impl FnMut(u32) -> F) -> anyhow::Result<()>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(in_flight));
    let mut tasks = Vec::new();
    for n in 0..count {
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let future = make(n);
        tasks.push(tokio::spawn(async move {
            future.await;
            drop(slot);
        }));
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

/// Recorded steps replayed per second, from the takeover to the end of the run.
async fn replay(database: &Database, count: u32, round: usize) -> anyhow::Result<f64> {
    let id = format!("replay-{count}-{round}");
    let first = runtime(database).await?;
    first.enter(async { steps::start(count).id(&id).await?.result().await }).await?;
    first.shutdown().await;
    let (told, ended) = tokio::sync::oneshot::channel();
    let told = std::sync::Mutex::new(Some(told));
    let hook = move |event: &durable::Event<'_>| {
        if let (durable::Event::Ended { .. }, Ok(mut told)) = (event, told.lock())
            && let Some(told) = told.take()
        {
            let _ = told.send(Instant::now());
        }
    };
    // From before the connection: claim, load, replay and the record of the end are in it, and the start is taken off.
    let idle = {
        let begun = Instant::now();
        let idle = runtime(database).await?;
        let took = begun.elapsed();
        idle.shutdown().await;
        took
    };
    pend(database, &id).await?;
    let begun = Instant::now();
    let second = Builder::new().url(&database.url).on_event(hook).build().await?;
    let took = (ended.await? - begun).saturating_sub(idle);
    second.shutdown().await;
    Ok(f64::from(count) / took.as_secs_f64())
}

/// As if the end had not been recorded: pending, with its whole history.
async fn pend(database: &Database, id: &str) -> anyhow::Result<()> {
    let update = format!("UPDATE workflows SET status = 'pending' WHERE workflow_id = '{id}'");
    match database.store {
        Store::Postgres => {
            let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(&database.url).await?;
            let text = format!("SET search_path = durable; {update}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(&mut connection).await?;
        }
        Store::Sqlite => {
            let mut connection = <sqlx::SqliteConnection as sqlx::Connection>::connect(&database.url).await?;
            sqlx::raw_sql(sqlx::AssertSqlSafe(update)).execute(&mut connection).await?;
        }
    }
    Ok(())
}

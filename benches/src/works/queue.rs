//! Queues: enqueue and run, a graph of runs against as many that don't wait for each other, and the way from an enqueue
//! to the start in another executor.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use durable::{Builder, Client, QueueLimits, Runtime, start_many, workflow};

use super::steps::noop;
use super::{at_most, runtime};
use crate::database::Database;
use crate::process;
use crate::report::{Report, median};

/// Tasks that enqueue at once.
const PRODUCERS: usize = 200;

static DONE: AtomicU32 = AtomicU32::new(0);

#[workflow(queue = "bench")]
async fn queued(n: u32) -> u32 {
    let n = noop(n).await;
    DONE.fetch_add(1, Ordering::Relaxed);
    n
}

/// When a body began, not for the workflow but for what is told about it.
static BEGUN: Mutex<Option<Instant>> = Mutex::new(None);

#[workflow(queue = "bench")]
async fn timed() {
    *BEGUN.lock().unwrap_or_else(PoisonError::into_inner) = Some(now());
}

fn now() -> Instant {
    Instant::now()
}

async fn all_done(count: u32) {
    while DONE.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    DONE.store(0, Ordering::Relaxed);
}

/// Workflows per second, from the first enqueue to the last end of a body; one step each.
pub(super) async fn measure(
    database: &Database,
    workflows: u32,
    rounds: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let runtime = runtime(database).await?;
    let run = async |count: u32| {
        let begun = Instant::now();
        at_most(PRODUCERS, count, |n| runtime.enter(async move { queued::start(n).await.map(drop) })).await?;
        all_done(count).await;
        Ok::<_, anyhow::Error>(f64::from(count) / begun.elapsed().as_secs_f64())
    };
    run(workflows / 10).await?;
    let (before, used) = (database.counts().await?, process::cpu_us());
    let mut figures = Vec::new();
    for _ in 0..rounds {
        figures.push(run(workflows).await?);
    }
    let done = f64::from(workflows) * figures.len() as f64;
    report.cpu_us_per_step = Some((process::cpu_us() - used) / done);
    if let (Some(before), Some(after)) = (before, database.counts().await?) {
        report.commits_per_step = Some((after.commits - before.commits) as f64 / done);
        report.wal_bytes_per_step = Some((after.wal - before.wal) as f64 / done);
    }
    report.per_s = Some(median(figures));
    report.note = Some(format!("queue: {workflows} workflows of one step by {PRODUCERS} tasks, each start awaited"));
    runtime.shutdown().await;
    Ok(())
}

/// A graph of one run, then all but two after it, then one after all of those; against as many that wait for nothing.
/// Both in one commit, the time from that on.
pub(super) async fn measure_graph(
    database: &Database,
    runs: u32,
    rounds: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let runtime = runtime(database).await?;
    let (mut linked, mut free) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let graph = graph(&runtime, round, runs).await?;
        let independent = independent(&runtime, runs).await?;
        if round > 0 {
            linked.push(graph);
            free.push(independent);
        }
    }
    report.rates(linked, free);
    report.note = Some(format!("graph: {runs} runs, fan-out and fan-in, against as many that don't wait (raw)"));
    runtime.shutdown().await;
    Ok(())
}

async fn graph(runtime: &Runtime, round: usize, runs: u32) -> anyhow::Result<f64> {
    let (first, last) = (format!("first-{round}"), format!("last-{round}"));
    let middle: Vec<String> = (0..runs - 2).map(|n| format!("middle-{round}-{n}")).collect();
    let mut starts = vec![queued::start(0).id(&first)];
    starts.extend(middle.iter().map(|id| queued::start(1).id(id).after([&first])));
    starts.push(queued::start(2).id(last).after_all(&middle));
    let begun = Instant::now();
    runtime.enter(start_many(starts)).await?;
    all_done(runs).await;
    Ok(f64::from(runs) / begun.elapsed().as_secs_f64())
}

async fn independent(runtime: &Runtime, runs: u32) -> anyhow::Result<f64> {
    let begun = Instant::now();
    runtime.enter(start_many((0..runs).map(queued::start))).await?;
    all_done(runs).await;
    Ok(f64::from(runs) / begun.elapsed().as_secs_f64())
}

/// Milliseconds from the call of an enqueue to the body's begin in an idle executor that shares nothing with it but the
/// database.
pub(super) async fn measure_wakeup(database: &Database, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let client: Client = Builder::new().url(&database.url).client().await?;
    client.set_queue("bench", QueueLimits::new()).await?;
    let runtime = runtime(database).await?;
    let mut times = Vec::new();
    for n in 0..if quick { 60 } else { 300 } {
        *BEGUN.lock().unwrap_or_else(PoisonError::into_inner) = None;
        tokio::time::sleep(Duration::from_millis(20 + n % 37)).await;
        let asked = Instant::now();
        client.start(timed::start()).await?;
        let begun = loop {
            if let Some(begun) = *BEGUN.lock().unwrap_or_else(PoisonError::into_inner) {
                break begun;
            }
            anyhow::ensure!(asked.elapsed() < Duration::from_secs(10), "it was not started");
            tokio::time::sleep(Duration::from_micros(200)).await;
        };
        times.push(begun.saturating_duration_since(asked).as_secs_f64() * 1e3);
    }
    report.times(times);
    report.note = Some("enqueue_to_start: a client and an idle executor, the whole way from the call".to_owned());
    runtime.shutdown().await;
    Ok(())
}

/// Runs at once in each executor.
const HANDS: u32 = 4;

/// How long a step takes.
const STEP: Duration = Duration::from_millis(50);

#[durable::step]
async fn slow() {
    tokio::time::sleep(STEP).await;
}

#[workflow(queue = "scaled")]
async fn slowly() {
    slow().await;
    DONE.fetch_add(1, Ordering::Relaxed);
}

/// Runs per second of 8 executors over 8 times those of one, each with so many hands: `raw` is that, and what would be
/// without any cost is in the note.
pub(super) async fn measure_scale(database: &Database, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let (mut rates, mut ideal) = (Vec::new(), Vec::new());
    let mut note = String::from("scale: executors and their part of runs that cost nothing but their 50 ms:");
    for executors in [1, 2, 4, 8] {
        let mut runtimes = Vec::new();
        for _ in 0..executors {
            let limits = QueueLimits::new().executor_concurrency(HANDS);
            runtimes.push(Builder::new().url(&database.url).queue("scaled", limits).build().await?);
        }
        let runs = executors * HANDS * 20;
        let mut figures = Vec::new();
        for _ in 0..=rounds {
            runtimes[0].enter(start_many((0..runs).map(|_| slowly::start()))).await?;
            let begun = Instant::now();
            all_done(runs).await;
            figures.push(f64::from(runs) / begun.elapsed().as_secs_f64());
        }
        let rate = median(figures.split_off(1));
        let free = f64::from(executors * HANDS) / STEP.as_secs_f64();
        note.push_str(&format!(" {executors}: {:.2}", rate / free));
        rates.push(rate);
        ideal.push(rates[0] * f64::from(executors));
        for runtime in runtimes {
            runtime.shutdown().await;
        }
    }
    report.rates(vec![rates[3]], vec![ideal[3]]);
    report.note = Some(note);
    Ok(())
}

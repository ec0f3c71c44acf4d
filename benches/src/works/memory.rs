//! What a running workflow costs in resident memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use durable::{Builder, step, workflow};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::child::{Child, Task};
use crate::database::Database;
use crate::process;
use crate::report::Report;

const WORKFLOWS: usize = 10_000;

static STANDING: AtomicUsize = AtomicUsize::new(0);
static GATE: Notify = Notify::const_new();

#[step]
async fn wait() -> u32 {
    STANDING.fetch_add(1, Ordering::Relaxed);
    GATE.notified().await;
    1
}

#[workflow]
async fn standing() -> u32 {
    wait().await
}

/// In the child: MiB that the workflows added, on one line.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
pub(crate) async fn measure(url: &str) -> anyhow::Result<()> {
    let runtime = Builder::new().url(url).max_running(WORKFLOWS).cancel_grace(Duration::ZERO).build().await?;
    // Connections, statements and threads are not the workflows'.
    let first = runtime.enter(async { standing::start().await }).await?;
    while STANDING.load(Ordering::Relaxed) < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    GATE.notify_one();
    first.result().await?;
    STANDING.store(0, Ordering::Relaxed);
    let before = process::rss_mib();
    let mut starts = JoinSet::new();
    for _ in 0..WORKFLOWS {
        starts.spawn(runtime.enter(async { standing::start().await.map(drop) }));
    }
    while let Some(started) = starts.join_next().await {
        started??;
    }
    drop(starts);
    while STANDING.load(Ordering::Relaxed) < WORKFLOWS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Past the notes on long bodies.
    tokio::time::sleep(Duration::from_secs(3)).await;
    println!("{}", process::rss_mib() - before);
    runtime.shutdown().await;
    Ok(())
}

/// In a process of its own, because memory that was used before would be used again.
pub(super) fn measure_in_child(database: &Database, report: &mut Report) -> anyhow::Result<()> {
    let mib: f64 = Child::start(Task::Memory, database)?.line()?.parse()?;
    report.in_flight = Some(WORKFLOWS);
    report.rss_mib = Some(mib);
    let kib = mib * 1024.0 / WORKFLOWS as f64;
    report.note = Some(format!("memory: {kib:.1} KiB for each workflow that stands in a step"));
    Ok(())
}

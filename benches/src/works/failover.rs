//! How long after a kill of an executor its workflows run elsewhere.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use durable::{Builder, Event, step, workflow};

use crate::child::{Child, Task};
use crate::database::Database;
use crate::report::Report;

#[step]
async fn long() -> u32 {
    std::future::pending().await
}

#[workflow]
async fn stuck() -> u32 {
    long().await
}

/// In the child: owns a workflow until the end of the process.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
pub(crate) async fn own(url: &str) -> anyhow::Result<()> {
    let runtime = Builder::new().url(url).build().await?;
    let run = runtime.enter(async { stuck::start().await }).await?;
    println!("{}", run.id());
    std::future::pending().await
}

/// Milliseconds from `kill -9` of one executor to the start of its workflow in another that was there before.
pub(super) async fn measure(database: &Database, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for round in 0..u32::try_from(rounds)? {
        let (told, began) = tokio::sync::oneshot::channel();
        let told = Mutex::new(Some(told));
        let hook = move |event: &Event<'_>| {
            if let (Event::Started { .. }, Ok(mut told)) = (event, told.lock())
                && let Some(told) = told.take()
            {
                let _ = told.send(Instant::now());
            }
        };
        let mut first = Child::start(Task::Failover, database)?;
        let id = first.line()?;
        let second = Builder::new().url(&database.url).on_event(hook).cancel_grace(Duration::ZERO).build().await?;
        // Long enough for the other to judge by what it has seen itself, and not always in the same moment of its beat.
        let phase = Duration::from_secs(1) * round / u32::try_from(rounds)?;
        tokio::time::sleep(Duration::from_millis(4_150) + phase).await;
        let killed = Instant::now();
        first.kill()?;
        times.push((began.await? - killed).as_secs_f64() * 1e3);
        second.enter(async { durable::handle::<stuck>(id).cancel().await }).await?;
        second.shutdown().await;
    }
    report.times(times);
    Ok(())
}

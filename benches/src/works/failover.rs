//! How long after the end of an executor its workflows run elsewhere.

use std::sync::Mutex;
use std::time::Instant;

use durable::{Builder, Event, step, workflow};

use crate::database::Database;
use crate::report::median;

#[step]
async fn long() -> u32 {
    tokio::time::sleep(std::time::Duration::from_secs(3_600)).await;
    1
}

#[workflow]
async fn stuck() -> u32 {
    long().await
}

/// Milliseconds from the end of one executor to the start of its workflow in another that was there before. The end is
/// that of a crash: connections and locks gone, nothing said.
pub(super) async fn milliseconds(database: &Database, rounds: usize) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let (told, began) = tokio::sync::oneshot::channel();
        let told = Mutex::new(Some(told));
        let hook = move |event: &Event<'_>| {
            if let (Event::Started { .. }, Ok(mut told)) = (event, told.lock())
                && let Some(told) = told.take()
            {
                let _ = told.send(Instant::now());
            }
        };
        let first = Builder::new().url(&database.url).build().await?;
        let run = first.enter(async { stuck::start().await }).await?;
        let second = Builder::new().url(&database.url).on_event(hook).build().await?;
        // Long enough for the other to judge by what it has seen itself.
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        let ended = Instant::now();
        drop((run, first));
        times.push((began.await? - ended).as_secs_f64() * 1e3);
        drop(second);
    }
    Ok(median(times))
}

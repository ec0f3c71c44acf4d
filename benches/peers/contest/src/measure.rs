//! The process of a contestant: one work, one answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::answer::Answer;
use crate::contestant::{Contestant, Target};
use crate::crowd::at_most;
use crate::lap;
use crate::setting::setting;
use crate::work::{Shape, named};

/// A work that took less is repeated, and the median counts.
const ENOUGH: Duration = Duration::from_secs(1);

/// Repetitions at most.
const REPETITIONS: usize = 15;

/// Tasks that enqueue at the same time.
const PRODUCERS: usize = 512;

/// `<program> WORK URL [--quick]`: does the work on the empty database at the URL, and prints the answer as JSON.
///
/// # Errors
/// What the library says, or that the command line is wrong.
pub fn main<C: Contestant>() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: WORK URL [--quick]";
    let (name, url) = (arguments.next().context(usage)?, arguments.next().context(usage)?);
    let work = named(&name, arguments.next().as_deref() == Some("--quick")).context("there is no such work")?;
    let target = Target { store: work.store, url };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let per_s = runtime.block_on(async {
        if !C::STORES.contains(&work.store) {
            return Ok(None);
        }
        match work.shape {
            Shape::Steps { workflows, steps, in_flight } => {
                run_steps::<C>(&target, workflows, steps, in_flight).await.map(Some)
            }
            Shape::Replay { steps } => replay::<C>(&target, steps).await.map(Some),
            Shape::Queue { .. } if !C::QUEUES => Ok(None),
            Shape::Queue { workflows } => queue::<C>(&target, workflows).await.map(Some),
        }
    })?;
    // What still runs is of no interest.
    runtime.shutdown_background();
    serde_json::to_writer(std::io::stdout().lock(), &Answer { per_s })?;
    Ok(())
}

async fn run_steps<C: Contestant>(target: &Target, workflows: u32, steps: u32, in_flight: usize) -> Result<f64> {
    let engine = Arc::new(C::start(target).await?);
    let crowd = |workflows: u32| {
        let engine = Arc::clone(&engine);
        at_most(in_flight, workflows, move || {
            let engine = Arc::clone(&engine);
            async move { engine.run(steps).await }
        })
    };
    // A part unmeasured: statements are prepared, connections are open, pages are there.
    crowd(workflows.div_ceil(4)).await?;
    let (mut figures, begun) = (Vec::new(), Instant::now());
    while figures.is_empty() || (begun.elapsed() < ENOUGH && figures.len() < REPETITIONS) {
        let (before, begun) = (lap::bodies(), Instant::now());
        crowd(workflows).await?;
        figures.push(f64::from(workflows * steps) / begun.elapsed().as_secs_f64());
        ensure!(lap::bodies() - before == workflows * steps, "not every step ran exactly once");
    }
    engine.stop().await;
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().context("nothing was measured")
}

async fn replay<C: Contestant>(target: &Target, steps: u32) -> Result<f64> {
    let first = Arc::new(C::start(target).await?);
    lap::count_ends(true);
    let caller = tokio::spawn({
        let first = Arc::clone(&first);
        async move { first.run(steps).await }
    });
    lap::ends(1).await?;
    caller.abort();
    ensure!(lap::bodies() == steps, "the history is not what it should be");
    lap::count_ends(false);
    let (second, begun) = first.replace(target).await?;
    let took = lap::ends(1).await?.checked_duration_since(begun).context("it went on before it was asked to")?;
    ensure!(lap::bodies() == steps, "steps ran that were recorded");
    second.stop().await;
    Ok(f64::from(steps) / took.as_secs_f64())
}

async fn queue<C: Contestant>(target: &Target, workflows: u32) -> Result<f64> {
    let engine = Arc::new(C::start(target).await?);
    let fill = |workflows: u32| {
        let engine = Arc::clone(&engine);
        at_most(setting("PEERS_PRODUCERS", PRODUCERS), workflows, move || {
            let engine = Arc::clone(&engine);
            async move { engine.enqueue().await }
        })
    };
    // Until the queue is known to its dispatcher and statements are prepared.
    lap::count_ends(false);
    fill(200).await?;
    lap::ends(200).await?;
    lap::count_ends(false);
    let (before, begun) = (lap::bodies(), Instant::now());
    fill(workflows).await?;
    let took = lap::ends(workflows).await? - begun;
    ensure!(lap::bodies() - before == workflows, "not every step ran exactly once");
    engine.stop().await;
    Ok(f64::from(workflows) / took.as_secs_f64())
}

//! The works, one file for each kind, and their names.

mod claim;
pub(crate) mod failover;
mod idle;
pub(crate) mod memory;
mod payload;
mod queue;
mod replay;
mod steps;

use std::sync::Arc;

use clap::ValueEnum;
use durable::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::database::Database;
use crate::report::Report;

/// A work.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    name: &'static str,
    shape: Shape,
}

#[derive(Clone, Copy)]
enum Shape {
    /// This many workflows of so many steps, at most so many at a time.
    Steps { workflows: u32, steps: u32, in_flight: usize },
    /// So many workflows of one step through a queue.
    Queue { workflows: u32 },
    /// So many runs that wait for each other: `ratio` is their rate over that of as many that don't.
    Graph { runs: u32 },
    /// One executor and eight: `ratio` is their rate over eight times its.
    Scale,
    /// From an enqueue to the start in another executor.
    EnqueueToStart,
    /// A history of so many steps, replayed.
    Replay { steps: u32 },
    /// So many steps with outputs of so many bytes.
    Payload { bytes: usize, workflows: u32, steps: u32 },
    /// A claim of a hundred: `ratio` is the time with many rows over that with few.
    Claim,
    /// The end of an executor: `p50_ms` until its workflow runs elsewhere.
    Failover,
    /// Nothing, for some seconds: statements per second.
    Idle,
    /// So many workflows that stand in a step: `rss_mib` is what they add.
    Memory,
}

fn all() -> Vec<Work> {
    let throughput = |name, in_flight| Work { name, shape: Shape::Steps { workflows: 2_000, steps: 10, in_flight } };
    vec![
        Work { name: "sequential", shape: Shape::Steps { workflows: 1, steps: 1_000, in_flight: 1 } },
        throughput("throughput", 2_000),
        throughput("throughput_256", 256),
        throughput("throughput_200", 200),
        Work { name: "throughput_20", shape: Shape::Steps { workflows: 500, steps: 10, in_flight: 20 } },
        Work { name: "queue", shape: Shape::Queue { workflows: 20_000 } },
        Work { name: "graph", shape: Shape::Graph { runs: 10_000 } },
        Work { name: "scale", shape: Shape::Scale },
        Work { name: "enqueue_to_start", shape: Shape::EnqueueToStart },
        Work { name: "replay_1000", shape: Shape::Replay { steps: 1_000 } },
        Work { name: "replay_10000", shape: Shape::Replay { steps: 10_000 } },
        Work { name: "payload_1k", shape: Shape::Payload { bytes: 1 << 10, workflows: 200, steps: 10 } },
        Work { name: "payload_64k", shape: Shape::Payload { bytes: 64 << 10, workflows: 50, steps: 4 } },
        Work { name: "payload_1m", shape: Shape::Payload { bytes: 1 << 20, workflows: 10, steps: 2 } },
        Work { name: "claim", shape: Shape::Claim },
        Work { name: "failover", shape: Shape::Failover },
        Work { name: "idle", shape: Shape::Idle },
        Work { name: "memory", shape: Shape::Memory },
    ]
}

/// The work of that name, or else those of that family (`replay` is `replay_1000` and `replay_10000`); all without one.
pub(crate) fn named(name: Option<&str>) -> anyhow::Result<Vec<Work>> {
    let Some(name) = name else { return Ok(all()) };
    let mut found: Vec<Work> = all().into_iter().filter(|work| work.name == name).collect();
    if found.is_empty() {
        let of_family = |work: &Work| work.name.rsplit_once('_').is_some_and(|(family, _)| family == name);
        found = all().into_iter().filter(of_family).collect();
    }
    let names: Vec<&str> = all().iter().map(|work| work.name).collect();
    anyhow::ensure!(!found.is_empty(), "there is no work `{name}`; there are: {}", names.join(", "));
    Ok(found)
}

/// Runs a work on an empty database.
pub(crate) async fn measure(work: &Work, database: &Database, rounds: usize, quick: bool) -> anyhow::Result<Report> {
    let store = database.store.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let mut report = Report { work: work.name.to_owned(), store, ..Report::default() };
    match work.shape {
        Shape::Steps { workflows, steps, in_flight } => {
            steps::Load { workflows, steps, in_flight }.measure(database, rounds, &mut report).await?;
        }
        Shape::Queue { workflows } => queue::measure(database, workflows, rounds, &mut report).await?,
        Shape::Graph { runs } => queue::measure_graph(database, runs, rounds, &mut report).await?,
        Shape::Scale => queue::measure_scale(database, rounds, &mut report).await?,
        Shape::EnqueueToStart => queue::measure_wakeup(database, quick, &mut report).await?,
        Shape::Replay { steps } => replay::measure(database, steps, rounds, &mut report).await?,
        Shape::Payload { bytes, workflows, steps } => {
            payload::Load { bytes, workflows, steps }.measure(database, rounds, &mut report).await?;
        }
        Shape::Claim => claim::measure(database, quick, &mut report).await?,
        Shape::Failover => failover::measure(database, rounds.min(3), &mut report).await?,
        Shape::Idle => idle::measure(database, quick, &mut report).await?,
        Shape::Memory => memory::measure_in_child(database, &mut report)?,
    }
    Ok(report)
}

async fn runtime(database: &Database) -> anyhow::Result<Runtime> {
    Ok(Builder::new().url(&database.url).max_running(10_000).build().await?)
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

#[cfg(test)]
mod tests {
    fn names(name: &str) -> Vec<&'static str> {
        super::named(Some(name)).unwrap().iter().map(|work| work.name).collect()
    }

    #[test]
    fn a_family_is_chosen_by_its_name_unless_a_work_has_it() {
        assert_eq!(names("replay"), ["replay_1000", "replay_10000"]);
        assert_eq!(names("payload"), ["payload_1k", "payload_64k", "payload_1m"]);
        assert_eq!(names("throughput"), ["throughput"]);
        assert_eq!(names("throughput_20"), ["throughput_20"]);
    }

    #[test]
    fn an_unknown_name_lists_those_there_are() {
        let error = super::named(Some("speed")).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("`speed`") && error.contains("sequential, throughput, "), "{error}");
    }
}

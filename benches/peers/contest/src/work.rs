//! The works, by name.

/// A work.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// What the table and the command line call it.
    pub name: &'static str,
    /// The database it runs on.
    pub store: Store,
    /// What is done.
    pub shape: Shape,
}

/// A database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A server that the driver has or is given.
    Postgres,
    /// A file.
    Sqlite,
}

/// What a work consists of.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// So many workflows of so many no-op steps, at most so many at a time: steps per second.
    Steps {
        /// Workflows.
        workflows: u32,
        /// Steps of each.
        steps: u32,
        /// Workflows at a time.
        in_flight: usize,
    },
    /// A workflow that was interrupted after so many steps goes on: recorded steps per second.
    Replay {
        /// Recorded steps.
        steps: u32,
    },
    /// So many workflows of one step through a queue, enqueued while they run: workflows per second.
    Queue {
        /// Workflows.
        workflows: u32,
    },
}

/// All works in their order; with `quick` the long ones are smaller.
#[must_use]
pub fn all(quick: bool) -> Vec<Work> {
    let steps = |name, store, workflows, steps, in_flight| {
        let shape = Shape::Steps { workflows, steps, in_flight };
        Work { name, store, shape }
    };
    let replay = |name, steps| Work { name, store: Store::Postgres, shape: Shape::Replay { steps } };
    let queued = if quick { 4_000 } else { 20_000 };
    vec![
        steps("sequential", Store::Postgres, 1, 1_000, 1),
        steps("throughput", Store::Postgres, 2_000, 10, 2_000),
        steps("throughput_256", Store::Postgres, 2_000, 10, 256),
        steps("throughput_20", Store::Postgres, 500, 10, 20),
        replay("replay", 1_000),
        replay("replay_10000", 10_000),
        Work { name: "queue", store: Store::Postgres, shape: Shape::Queue { workflows: queued } },
        steps("sqlite_sequential", Store::Sqlite, 1, 1_000, 1),
        steps("sqlite_throughput", Store::Sqlite, 2_000, 10, 2_000),
    ]
}

/// The work of this name.
#[must_use]
pub fn named(name: &str, quick: bool) -> Option<Work> {
    all(quick).into_iter().find(|work| work.name == name)
}

/// The names of all works.
#[must_use]
pub fn names() -> String {
    all(false).iter().map(|work| work.name).collect::<Vec<_>>().join(", ")
}

//! Queues: limits, what a queue holds, and what is put into one. Layer: model.

use std::sync::Arc;
use std::time::Duration;

use super::Micros;
use crate::codec::Payload;

/// The queue of work that names none.
pub(crate) const DEFAULT_QUEUE: &str = "default";

/// The limits of a queue. Without any, as many run as the executors have room for ([`Builder::max_running`]).
///
/// They are counted in the database when an executor claims, over all executors, and hold through kills and
/// recoveries: a dead executor gives its slots back with its work. `concurrency` and the like count workflows that run;
/// rates count claims, a recovery or a new attempt included.
///
/// ```
/// use std::time::Duration;
/// let limits = durable::QueueLimits::new()
///     .concurrency(50)
///     .rate(100, Duration::from_secs(60))
///     .partition_concurrency(1);
/// ```
///
/// [`Builder::max_running`]: crate::Builder::max_running
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueLimits {
    pub(crate) concurrency: Option<u32>,
    pub(crate) executor_concurrency: Option<u32>,
    pub(crate) rate: Option<(u32, Duration)>,
    pub(crate) partition_concurrency: Option<u32>,
    pub(crate) partition_executor_concurrency: Option<u32>,
    pub(crate) partition_rate: Option<(u32, Duration)>,
}

impl QueueLimits {
    /// No limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Workflows of the queue that run at once, over all executors.
    #[must_use]
    pub fn concurrency(mut self, workflows: u32) -> Self {
        self.concurrency = Some(workflows);
        self
    }

    /// Workflows of the queue that run at once in one executor.
    #[must_use]
    pub fn executor_concurrency(mut self, workflows: u32) -> Self {
        self.executor_concurrency = Some(workflows);
        self
    }

    /// Workflows of the queue that are claimed within any `window`, over all executors.
    #[must_use]
    pub fn rate(mut self, workflows: u32, window: Duration) -> Self {
        self.rate = Some((workflows, window));
        self
    }

    /// Workflows with one partition key that run at once, over all executors. 1 makes them take turns.
    #[must_use]
    pub fn partition_concurrency(mut self, workflows: u32) -> Self {
        self.partition_concurrency = Some(workflows);
        self
    }

    /// Workflows with one partition key that run at once in one executor.
    #[must_use]
    pub fn partition_executor_concurrency(mut self, workflows: u32) -> Self {
        self.partition_executor_concurrency = Some(workflows);
        self
    }

    /// Workflows with one partition key that are claimed within any `window`, over all executors.
    #[must_use]
    pub fn partition_rate(mut self, workflows: u32, window: Duration) -> Self {
        self.partition_rate = Some((workflows, window));
        self
    }

    /// What is wrong with them, if something is.
    pub(crate) fn problem(&self) -> Option<String> {
        let counts = [
            ("concurrency", self.concurrency),
            ("executor_concurrency", self.executor_concurrency),
            ("rate", self.rate.map(|(workflows, _)| workflows)),
            ("partition_concurrency", self.partition_concurrency),
            ("partition_executor_concurrency", self.partition_executor_concurrency),
            ("partition_rate", self.partition_rate.map(|(workflows, _)| workflows)),
        ];
        for (name, count) in counts {
            match count {
                Some(0) => {
                    return Some(format!(
                        "`{name}` is 0, and nothing would ever run: leave it out for no limit, or pause the queue"
                    ));
                }
                Some(count) if i32::try_from(count).is_err() => {
                    return Some(format!("`{name}` is {count}, the most is {}: leave it out for no limit", i32::MAX));
                }
                _ => {}
            }
        }
        for (name, rate) in [("rate", self.rate), ("partition_rate", self.partition_rate)] {
            if let Some((_, window)) = rate
                && (window < Duration::from_millis(1) || window > Duration::from_secs(366 * 86_400))
            {
                return Some(format!("the window of `{name}` is {window:?}: use 1 ms to 366 days"));
            }
        }
        None
    }
}

/// What a queue is set to, and how much is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// Whether claims pass it by.
    pub paused: bool,
    /// Its limits.
    pub limits: QueueLimits,
    /// Workflows that could run now, limits aside.
    pub pending: u64,
    /// Workflows that wait for time, others' ends or a message.
    pub waiting: u64,
    /// Workflows that run.
    pub running: u64,
}

/// A workflow to record as pending or waiting, for whoever claims it.
#[derive(Clone, Debug)]
pub(crate) struct EnqueueRow {
    pub(crate) workflow_id: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) version: i32,
    pub(crate) queue: Arc<str>,
    pub(crate) priority: i32,
    pub(crate) due: Due,
    pub(crate) dedup_key: Option<String>,
    pub(crate) partition_key: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) input: Payload,
    pub(crate) seed: i64,
    pub(crate) write_id: i64,
    pub(crate) after: Vec<Prerequisite>,
}

/// When a workflow may run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// Microseconds from when it is recorded.
    In(i64),
    At(Micros),
}

/// A run that another waits for.
#[derive(Clone, Debug)]
pub(crate) struct Prerequisite {
    pub(crate) workflow_id: Arc<str>,
    /// Any end will do, not `done` alone.
    pub(crate) any_end: bool,
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// It is recorded now, or was by the same call before a lost reply.
    New,
    /// Its id is taken.
    Exists,
    /// Its dedup key is held by an unfinished run: this one.
    Duplicate(String),
}

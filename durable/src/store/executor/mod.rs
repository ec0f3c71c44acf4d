//! Executors: who is alive, and who has to be replaced. Layer: store.

mod postgres;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Lease, Result};
use crate::model::Micros;

/// Registration and takeover.
#[async_trait]
pub(crate) trait ExecutorStore: Send + Sync {
    /// Records a new executor and its lease rows, one for claims and one for each writer. `executor_id` is new for
    /// every process incarnation, so repeating after a lost reply with the same id is safe.
    async fn register(&self, executor_id: &str, name: &str) -> Result<Registration>;

    /// The connection that holds the lock, writes the heartbeat, and listens if it is to; opened by its own thread.
    fn liveness(&self, registration: &Registration, listen: bool) -> Box<dyn LivenessConnection>;

    /// Marks an executor dead and raises its writers' epochs: every statement it sends from then on is empty, and
    /// one in flight has been waited for. Only if its heartbeat is still the judged one. `false` if it is not.
    async fn take_over(&self, executor_id: &str, heartbeat_at: Micros) -> Result<bool>;

    /// Records that nothing of an ended executor is left to release, and forgets executors that ended a day ago.
    async fn mark_released(&self, executor_id: &str) -> Result<()>;

    /// Marks the own executor as stopped; its lease rows are void from then on.
    async fn retire(&self, executor_id: &str) -> Result<()>;

    /// Whether there are executors besides `executor_id` that `recover` waits for the judgement on.
    /// `silence` is for how long it has waited.
    async fn suspects(&self, executor_id: &str, silence: Duration) -> Result<Suspects>;
}

/// Executors that may be dead, and are not yet judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Suspects {
    /// One has a free lock: that takes a grace.
    pub(crate) by_lock: bool,
    /// One without a lock has been silent: that takes a lease.
    pub(crate) by_lease: bool,
}

/// A registered executor.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) executor_id: Arc<str>,
    /// The number of its lock.
    pub(crate) number: i32,
    /// The lease row of the claims, then one for each writer.
    pub(crate) leases: Vec<Lease>,
}

/// Lock and heartbeat of one executor, on a connection and thread of their own.
#[async_trait]
pub(crate) trait LivenessConnection: Send {
    /// Connects where needed and takes the lock. To be called before the first beat and after every error.
    async fn acquire(&mut self) -> Result<()>;

    /// One statement: writes the heartbeat and looks around.
    async fn beat(&mut self, question: &BeatQuestion) -> Result<Beat>;

    /// The part of a beat that looks for work, without the heartbeat.
    async fn look(&mut self, question: &BeatQuestion) -> Result<Look>;

    /// Resolves when there may be work: another process said so, or the file has changed. Never, where that can't be heard.
    /// May be dropped at any time. An error means that the session is gone.
    async fn woken(&mut self) -> Result<Woken>;

    /// Gives the lock back, so that others see a graceful end at once.
    async fn release(&mut self);
}

/// Whether there is work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// True if a pending workflow that this process serves exists, or one that has fallen due.
    pub(crate) due: bool,
    /// Microseconds until the next falls due, or a rate has room again, if one will.
    pub(crate) due_in: Option<i64>,
    /// True if a queue that this process serves has a rate: then a claim that leaves some may have been held by it.
    pub(crate) rated: bool,
}

/// What a session heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something is pending in a queue that this process serves.
    Pending,
    /// Something may be: look first.
    Perhaps,
}

/// What a beat needs to know.
#[derive(Clone, Debug)]
pub(crate) struct BeatQuestion {
    /// A free lock counts as dead after this time without a heartbeat.
    pub(crate) grace: Duration,
    /// No heartbeat for this long counts as dead, whatever the lock says.
    pub(crate) lease: Duration,
    /// For how long this session has been up: it may judge only by what it could have seen itself.
    pub(crate) watching: Duration,
    /// The names and versions this process serves.
    pub(crate) served: Arc<[(&'static str, i32)]>,
    /// The queues it claims from; `None` for all.
    pub(crate) queues: Option<Arc<[String]>>,
}

/// What a beat found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beat {
    /// False if the own executor was declared dead.
    pub(crate) alive: bool,
    /// The database's time.
    pub(crate) now: Micros,
    /// Sum of the interruptions of the own lease rows: when it grows, a workflow was taken away.
    pub(crate) interruptions: i64,
    pub(crate) look: Look,
    /// Executors to take over, or ended ones that still own workflows.
    pub(crate) dead: Vec<DeadExecutor>,
}

/// An executor that another has to clean up after.
#[derive(Clone, Debug)]
pub(crate) struct DeadExecutor {
    pub(crate) executor_id: String,
    pub(crate) name: String,
    /// The heartbeat it was judged by.
    pub(crate) heartbeat_at: Micros,
    /// True if it was marked before, and only its workflows are left to release.
    pub(crate) marked: bool,
}

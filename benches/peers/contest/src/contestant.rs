//! What a library must say to take part.

use std::future::Future;
use std::time::Instant;

use anyhow::Result;

use crate::work::Store;

/// An empty database that nobody else uses.
#[derive(Clone, Debug)]
pub struct Target {
    /// What kind of database.
    pub store: Store,
    /// Where it is: `postgres://…` or `sqlite://…`.
    pub url: String,
}

/// A running engine of a library, with its best documented settings.
///
/// Its workflow calls [`body`](crate::body) in each step and [`end`](crate::end) after the last.
pub trait Contestant: Sized + Send + Sync + 'static {
    /// The databases it works on.
    const STORES: &'static [Store];

    /// Whether it has queues.
    const QUEUES: bool;

    /// Starts the engine, with its tables and whatever runs in the background.
    fn start(target: &Target) -> impl Future<Output = Result<Self>> + Send;

    /// Runs one workflow of so many steps and waits for its result.
    fn run(&self, steps: u32) -> impl Future<Output = Result<()>> + Send;

    /// Leaves a workflow of one step on the queue.
    fn enqueue(&self) -> impl Future<Output = Result<()>> + Send {
        async { anyhow::bail!("there are no queues") }
    }

    /// Stops the engine in the midst of a workflow, which stands still, and starts another that goes on with it. Also
    /// gives the moment in which the recovery was asked for, with everything connected before, as far as the library
    /// separates the two.
    fn replace(&self, target: &Target) -> impl Future<Output = Result<(Self, Instant)>> + Send;

    /// Stops the engine.
    fn stop(&self) -> impl Future<Output = ()> + Send;
}

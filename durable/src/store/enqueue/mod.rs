//! Enqueueing: recording workflows for whoever claims them. Layer: store.

mod postgres;
mod sqlite;

use async_trait::async_trait;

use super::Result;
use crate::model::{EnqueueRow, Submitted};

/// Recording workflows from a process that need not be an executor.
#[async_trait]
pub(crate) trait EnqueueStore: Send + Sync {
    /// Records `rows` in their order, which is the order of submission: all that are new in one commit, or none on an
    /// error. A row whose id or dedup key is taken is left out. Repeating the same rows after a lost reply is safe:
    /// their write ids tell.
    ///
    /// A row with prerequisites waits until they have ended; one that has ended otherwise than `done` already makes it
    /// `cancelled` at once, unless any end will do. A prerequisite may be another of `rows`.
    ///
    /// # Errors
    /// [`NotFound`](super::StoreErrorKind::NotFound) if a prerequisite does not exist; nothing is recorded then.
    async fn submit(&self, rows: &[EnqueueRow]) -> Result<Vec<Submitted>>;

    /// Tells the executors of all processes that something is pending in these queues; an empty name makes them look
    /// for what falls due soon. A hint: it may be lost. SQLite's processes see the commit itself.
    async fn wake(&self, queues: &[String]) -> Result<()>;
}

//! Queues: which there are, and their limits. Layer: store.

mod postgres;
mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;

use super::Result;
use crate::model::{QueueInfo, QueueLimits};

/// Naming, limiting and pausing queues.
#[async_trait]
pub(crate) trait QueueStore: Send + Sync {
    /// Names a queue. With `limits` it has those from the next claim on, and no others; without, an existing queue
    /// keeps its own. Whether it is paused stays. Idempotent.
    async fn set_queue(&self, name: &str, limits: Option<&QueueLimits>) -> Result<()>;

    /// Pauses a queue: claims pass it by; what runs goes on. `false` if there is no such queue. Idempotent.
    async fn pause_queue(&self, name: &str, paused: bool) -> Result<bool>;

    /// Whether a queue exists. One that does exists for ever.
    async fn has_queue(&self, name: &str) -> Result<bool>;

    /// Every queue by name, with its depth.
    async fn queues(&self) -> Result<Vec<QueueInfo>>;

    /// Records the names, versions and queues that a program has, for those who enqueue by SQL. Idempotent.
    async fn register_workflows(&self, workflows: &[(&'static str, i32, Arc<str>)]) -> Result<()>;
}

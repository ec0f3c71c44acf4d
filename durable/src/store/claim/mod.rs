//! Claims: how pending workflows come to an executor, and how they go back. Layer: store.

mod postgres;
mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;

use super::{Lease, Result};
use crate::model::ClaimedWorkflow;

/// What is said of a claimed workflow without an input.
const GONE: &str = "is missing: its row in workflow_payloads is gone";

/// Taking and giving back workflows.
#[async_trait]
pub(crate) trait ClaimStore: Send + Sync {
    /// Claims up to `limit` pending workflows that `wanted` describes, after making pending what has fallen due. Raises
    /// each epoch. Atomic; empty if `lease` is lost. After a lost reply, what was claimed is found by
    /// [`release_orphans`](Self::release_orphans).
    ///
    /// Within a queue the order is priority (lowest first), due time (`wake_at`, else `created_at`), submission. The room
    /// is shared among the queues that have work. A queue with limits is locked before what runs is counted, so that no
    /// two claims count the same room; of one with limits per partition key each key has its own order, and a key
    /// without room is not read past. A paused queue is passed by.
    async fn claim_due(&self, lease: &Lease, wanted: &Wanted<'_>, limit: i64) -> Result<Vec<ClaimedWorkflow>>;

    /// Makes running workflows of `executor_id` pending again, except those in `keep`: a graceful end, or claims
    /// whose reply was lost. Not a recovery. Returns how many.
    async fn release_orphans(&self, executor_id: &str, keep: &[Arc<str>]) -> Result<u64>;

    /// Makes up to `limit` running workflows of a dead executor pending again and counts a recovery on each; those
    /// beyond `max_recoveries` without a new checkpoint become `dead`. Returns how many rows it changed; zero when
    /// nothing is left. Idempotent.
    async fn release_dead(&self, executor_id: &str, max_recoveries: i32, limit: i64) -> Result<u64>;

    /// Names and versions of pending workflows that are not among `served`, with their number, up to a hundred.
    async fn unserved(&self, served: &[(&'static str, i32)]) -> Result<Vec<(String, i32, i64)>>;
}

/// Which workflows a claim asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Names and versions.
    pub(crate) served: &'a [(&'static str, i32)],
    /// With so many recoveries since the last step a workflow is a suspect: it may be what ends its executors.
    pub(crate) suspect_from: i32,
    /// Suspects alone, or all others.
    pub(crate) suspects: bool,
    /// The queues to claim from; `None` for all.
    pub(crate) queues: Option<&'a [String]>,
    /// Which of the queues begins: the caller counts its claims.
    pub(crate) turn: i32,
}

//! The write path: a batch of operations in one statement, or one operation in its own.
//!
//! A connection only sends, counts and looks; what the counts mean is decided above, once for both databases, in
//! `writer::flush`. Layer: store.

mod postgres;
mod sqlite;

use async_trait::async_trait;

use super::{Lease, Result};
use crate::model::{Op, StepRecord, WorkflowState};

/// Opens the long-held connections of the writers.
#[async_trait]
pub(crate) trait WriteStore: Send + Sync {
    /// A connection that proves `lease` in every statement it sends. Does not touch the database until used.
    fn writer(&self, lease: Lease) -> Box<dyn WriterConnection>;

    /// How many writers a process uses: two on Postgres, one on SQLite, which has one writer anyway.
    fn writers(&self) -> i32;
}

/// One writer's connection. Used by one task at a time, and never by a user's future.
#[async_trait]
pub(crate) trait WriterConnection: Send {
    /// Sends `ops` in one autocommitted statement (SQLite: one transaction if they are of several kinds), fenced by
    /// the lease row and each workflow's epoch and status.
    ///
    /// Atomic: an error means that nothing was written, except [`Unavailable`](super::StoreErrorKind::Unavailable),
    /// where it is unknown. Repeating the same operations is safe: their write ids tell.
    /// With `tolerate` a taken step key is skipped instead of failing the statement.
    async fn send(&mut self, ops: &[Op], tolerate: bool) -> Result<Tally>;

    /// What the database holds for each of `ops` now, in their order. Read by a statement of its own: what another
    /// transaction committed during `send` is invisible to `send` itself.
    async fn inspect(&mut self, ops: &[Op]) -> Result<Vec<Inspected>>;

    /// Reads the own lease row again. A raised interruption count is taken over, so that the next `send` passes.
    async fn renew(&mut self) -> Result<Renewal>;

    /// Drops the connection; the next use opens another.
    async fn reset(&mut self);
}

/// What the own lease row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Its epoch is not ours any more: this executor was declared dead.
    Lost,
    /// Nobody has touched it.
    Held,
    /// Somebody took a workflow away since: what was sent before has not looked at a single row.
    Interrupted,
}

/// How many rows of each kind were accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) starts: i64,
    pub(crate) steps: i64,
    pub(crate) attempts: i64,
    pub(crate) settles: i64,
}

impl Tally {
    /// What a statement answers that accepts all of `ops`.
    pub(crate) fn of(ops: &[Op]) -> Self {
        let mut tally = Self::default();
        for op in ops {
            match op {
                Op::Start(_) => tally.starts += 1,
                Op::Step(_) => tally.steps += 1,
                Op::Attempt(_) => tally.attempts += 1,
                Op::Settle(_) => tally.settles += 1,
            }
        }
        tally
    }
}

/// What the database holds where an operation wanted to write.
#[derive(Debug, Default)]
pub(crate) struct Inspected {
    pub(crate) workflow: Option<WorkflowState>,
    /// For a step: the checkpoint under its key.
    pub(crate) step: Option<StepRecord>,
}

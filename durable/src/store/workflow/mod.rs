//! One workflow at a time: look, cancel, resume. Layer: store.

mod postgres;
mod sqlite;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::Lease;
use super::Result;
use crate::codec::Outcome;
use crate::model::{Micros, StoredInput, WorkflowState, WorkflowStatus};

/// Reads and changes of single workflows, from any process.
#[async_trait]
pub(crate) trait WorkflowStore: Send + Sync {
    /// The row, without payloads; `None` if there is none.
    async fn workflow(&self, id: &str) -> Result<Option<WorkflowState>>;

    /// The stored input.
    async fn input(&self, id: &str) -> Result<Option<StoredInput>>;

    /// The recorded outcome of the body, if it has one. Immutable while the status is `done`.
    async fn result(&self, id: &str) -> Result<Option<Outcome>>;

    /// Of `ids`, those that go on by themselves: pending, running or waiting. The others have ended, are blocked, or are
    /// not there.
    async fn unsettled(&self, ids: &[Arc<str>]) -> Result<HashSet<String>>;

    /// Of `ids`, those that `executor_id` does not run any more, and whether they are cancelled under it.
    async fn taken_away(&self, executor_id: &str, ids: &[Arc<str>]) -> Result<Vec<(String, bool)>>;

    /// Cancels a workflow that has not ended. Compare-and-set: exactly one of a cancel and a completion wins. When
    /// it returns `Cancelled`, no step that starts later is recorded. Repeating it with the same `write_id` after a
    /// lost reply answers `Cancelled` again.
    async fn cancel(&self, id: &str, reason: &str, write_id: i64) -> Result<CancelAnswer>;

    /// Gives a cancelled, failed, dead or blocked workflow a new attempt: pending, counts at zero, epoch raised, its
    /// result removed, the error outcomes that nothing followed set aside. Atomic, and idempotent by `write_id`.
    /// Its dedup key must be free, its prerequisites count no more.
    async fn resume(&self, id: &str, write_id: i64) -> Result<ResumeAnswer>;

    /// Ends a workflow attempt that failed: the workflow waits for `delay` and begins the next, with the epoch raised and
    /// the error outcomes that nothing followed set aside. Fenced by `lease` and epoch. Atomic, and idempotent by its
    /// write id.
    async fn retry(&self, lease: &Lease, retry: &Retry<'_>) -> Result<RetryAnswer>;

    /// Ids of up to `limit` workflows that stopped, in the order of ids, behind `after`.
    async fn stopped(&self, which: &Stopped, after: &str, limit: i64) -> Result<Vec<String>>;
}

/// The end of a workflow attempt that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry<'a> {
    pub(crate) workflow_id: &'a str,
    pub(crate) epoch: i32,
    /// Microseconds from now.
    pub(crate) delay: i64,
    pub(crate) error_message: &'a str,
    pub(crate) write_id: i64,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum RetryAnswer {
    /// It waits for its next attempt.
    Waiting,
    /// It is not ours any more; its row, if there is one.
    Fenced(Option<Box<WorkflowState>>),
}

/// Which workflows that stopped; every condition that is given must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopped {
    pub(crate) statuses: Vec<WorkflowStatus>,
    pub(crate) name: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) tag: Option<String>,
}

/// What became of a cancel.
#[derive(Debug)]
pub(crate) enum CancelAnswer {
    /// It is cancelled.
    Cancelled {
        /// The epoch that was running, if one was.
        epoch: i32,
        /// Since when, by the database's clock; `None` if an earlier try did it and the reply was lost.
        at: Option<Micros>,
    },
    /// It had ended before.
    Ended(Box<WorkflowState>),
    /// There is no such workflow.
    Missing,
}

/// What became of a resume.
#[derive(Debug)]
pub(crate) enum ResumeAnswer {
    /// It is pending now.
    Resumed,
    /// It is in a status that can't be resumed.
    Refused(Box<WorkflowState>),
    /// An unfinished run has its dedup key by now.
    Duplicate,
    /// There is no such workflow.
    Missing,
}

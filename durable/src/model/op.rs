//! What an executor writes: one operation per row, merged into batches by the writer.
//!
//! Each carries a write id made outside any retry loop, so that a repeated write after a lost reply is told from
//! somebody else's. Layer: model.

use std::sync::Arc;

use super::{Micros, WorkflowStatus};
use crate::codec::{Outcome, Payload};
use crate::ids::StepKey;

/// One write of an executor.
#[derive(Debug)]
pub(crate) enum Op {
    /// Records a workflow.
    Start(StartOp),
    /// Records the outcome of a step.
    Step(StepOp),
    /// Records progress of a step: an attempt that runs or failed.
    Attempt(AttemptOp),
    /// Records the end of a workflow, or that it is blocked.
    Settle(SettleOp),
}

#[derive(Debug)]
pub(crate) struct StartOp {
    pub(crate) workflow_id: Arc<str>,
    pub(crate) name: &'static str,
    pub(crate) version: i32,
    /// `None` for `default`.
    pub(crate) queue: Option<Arc<str>>,
    /// Claimed by the executor that records it, in the same write, unless its queue is limited or paused; then nothing is
    /// recorded. Otherwise `pending`.
    pub(crate) run_here: bool,
    pub(crate) seed: i64,
    pub(crate) input: Payload,
    pub(crate) write_id: i64,
}

#[derive(Debug)]
pub(crate) struct StepOp {
    pub(crate) workflow_id: Arc<str>,
    pub(crate) epoch: i32,
    pub(crate) key: StepKey,
    pub(crate) seq: i64,
    pub(crate) kind: &'static str,
    pub(crate) site: Arc<Site>,
    pub(crate) outcome: Outcome,
    pub(crate) args_hash: Option<i64>,
    pub(crate) attempts: i32,
    pub(crate) started_at: Micros,
    pub(crate) completed_at: Micros,
    pub(crate) write_id: i64,
}

/// What a call is called and where it stands; shared by all its rows.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) step_name: Arc<str>,
    pub(crate) call: Arc<str>,
    pub(crate) definition: Arc<str>,
}

#[derive(Debug)]
pub(crate) struct AttemptOp {
    pub(crate) workflow_id: Arc<str>,
    pub(crate) epoch: i32,
    pub(crate) key: StepKey,
    pub(crate) step_name: &'static str,
    pub(crate) attempt: i32,
    pub(crate) status: AttemptStatus,
    pub(crate) error_message: Option<String>,
    pub(crate) started_at: Micros,
    pub(crate) ended_at: Option<Micros>,
    pub(crate) next_attempt_at: Option<Micros>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptStatus {
    Running,
    Retrying,
}

impl AttemptStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Retrying => "retrying",
        }
    }
}

#[derive(Debug)]
pub(crate) struct SettleOp {
    pub(crate) workflow_id: Arc<str>,
    pub(crate) epoch: i32,
    pub(crate) status: WorkflowStatus,
    pub(crate) reason: Option<String>,
    pub(crate) error_message: Option<String>,
    /// The outcome of the body; absent for `blocked`.
    pub(crate) result: Option<Outcome>,
    pub(crate) write_id: i64,
}

impl Op {
    pub(crate) fn workflow_id(&self) -> &Arc<str> {
        match self {
            Self::Start(op) => &op.workflow_id,
            Self::Step(op) => &op.workflow_id,
            Self::Attempt(op) => &op.workflow_id,
            Self::Settle(op) => &op.workflow_id,
        }
    }

    /// Bytes that count against the cap of a batch: the payload and a row's worth of columns.
    pub(crate) fn weight(&self) -> usize {
        256 + match self {
            Self::Start(op) => op.input.size(),
            Self::Step(op) => op.outcome.payload().size(),
            Self::Attempt(op) => op.error_message.as_ref().map_or(0, String::len),
            Self::Settle(op) => op.result.as_ref().map_or(0, |outcome| outcome.payload().size()),
        }
    }
}

//! Pure state: the rows as the engine sees them, and the rules that need no database.
//!
//! Guarantees nothing about storage; no I/O and no clock here. Layer: below the stores.

mod op;
mod queue;
mod row;
mod status;

pub(crate) use op::{AttemptOp, AttemptStatus, Op, SettleOp, Site, StartOp, StepOp};
pub(crate) use queue::{DEFAULT_QUEUE, Due, EnqueueRow, Prerequisite, Submitted};
pub use queue::{QueueInfo, QueueLimits};
pub(crate) use row::{
    AttemptRecord, ClaimedWorkflow, HistoryRows, ResumeKeys, StepRecord, StoredInput, WorkflowState, set_aside,
};
pub use status::WorkflowStatus;

/// Microseconds since 1970-01-01 UTC, by the database's clock.
pub(crate) type Micros = i64;

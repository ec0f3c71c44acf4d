//! The two databases behind one set of verbs.
//!
//! One folder per verb group: the trait, the SQL of both dialects, and the two implementations side by side. The
//! engine holds `Arc<dyn Store>`; `sqlx` appears nowhere above this module except where the user hands over a pool.
//! Layer: above the model, below the writer.

pub(crate) mod claim;
mod connect;
mod connection;
pub(crate) mod enqueue;
pub(crate) mod error;
pub(crate) mod executor;
pub(crate) mod migrate;
mod postgres;
pub(crate) mod queue;
mod row;
mod sqlite;
pub(crate) mod step;
pub(crate) mod workflow;
pub(crate) mod write;

pub(crate) use claim::ClaimStore;
pub(crate) use connect::{StoreOptions, Target, connect};
pub(crate) use enqueue::EnqueueStore;
pub(crate) use error::{StoreError, StoreErrorKind, in_time};
pub(crate) use executor::ExecutorStore;
pub(crate) use queue::QueueStore;
pub(crate) use step::StepStore;
pub(crate) use workflow::WorkflowStore;
pub(crate) use write::WriteStore;

/// Every verb group of a database.
pub(crate) trait Store:
    WriteStore + ClaimStore + EnqueueStore + QueueStore + WorkflowStore + StepStore + ExecutorStore
{
}

impl<S: WriteStore + ClaimStore + EnqueueStore + QueueStore + WorkflowStore + StepStore + ExecutorStore> Store for S {}

pub(crate) type Result<T> = std::result::Result<T, StoreError>;

/// Identifies the lease row that a statement proves.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) executor_id: std::sync::Arc<str>,
    pub(crate) writer: i32,
    pub(crate) epoch: i32,
    pub(crate) interruptions: i64,
}

/// The writer number of the lease row that claims prove; the writers count from 1.
pub(crate) const CLAIM_WRITER: i32 = 0;

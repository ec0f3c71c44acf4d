//! Ordinary async functions that survive crashes.
//!
//! Annotate functions with [`#[workflow]`](macro@workflow) and [`#[step]`](macro@step). Each step's outcome is
//! recorded before the workflow goes on; after a crash, [`recover`] continues every unfinished workflow from its last
//! recorded step. With no configuration the records are in one SQLite file; with a Postgres URL any number of
//! processes share the work. There is no server.
//!
//! ```
//! use durable::{step, workflow};
//!
//! #[step(retry(max_attempts = 5, initial = "1s"))]
//! async fn charge(cents: u64) -> anyhow::Result<String> {
//!     Ok(format!("paid {cents} under {}", durable::idempotency_key().len()))
//! }
//!
//! #[workflow]
//! async fn checkout(cents: u64) -> anyhow::Result<String> {
//!     let receipt = charge(cents).await?;
//!     Ok(receipt.to_uppercase())
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! let runtime = durable::Builder::new().url("sqlite::memory:").build().await?;
//! let receipt = runtime.enter(async {
//!     let run = checkout::start(1200).id("order-7").await?;
//!     run.result().await?
//! });
//! assert_eq!(receipt.await?, "PAID 1200 UNDER 32");
//! runtime.shutdown().await;
//! # Ok::<_, anyhow::Error>(())
//! # }).unwrap();
//! ```
//!
//! # What is where
//! - Start and end: [`init`], [`recover`], [`shutdown`], [`Builder`], [`Runtime`].
//! - Runs: `my_workflow::start(..)` gives a [`Start`], which gives a [`WorkflowHandle`]; [`handle`] reaches one again.
//! - Queues: [`Start`] has the options of a run, [`start_many`] many in one commit; [`QueueLimits`], [`Client`],
//!   [`Requeue`].
//! - In a workflow: [`join!`], [`try_join!`], [`map`], [`now`], [`uuid()`], [`random`], [`workflow_id`].
//! - In a step: [`idempotency_key`], [`cancelled`], [`state`].
//! - Errors: [`Error`] of the library's calls, [`Failure`] as what a recorded error comes back.
//! - Unit tests: [`plain`] runs everything unrecorded.

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod client;
mod clock;
#[doc(hidden)]
pub mod codec;
mod crash;
mod error;
mod event;
mod executor;
mod ids;
mod model;
mod registry;
mod replay;
mod runtime;
mod store;
mod workflow;
mod writer;

pub use durable_macros::{step, workflow};

pub use client::{Client, Enqueue, OnDuplicate, Requeue, RunId, Start, WorkflowHandle, handle, start_many, state};
pub use error::{Error, ErrorKind, Failure, FailureKind};
pub use event::Event;
pub use model::{QueueInfo, QueueLimits, WorkflowStatus};
pub use registry::Workflow;
pub use runtime::{Builder, Recovered, Runtime, Unserved, init, recover, shutdown};
pub use workflow::{
    Random, RetryPolicy, StepFuture, Uuid, cancelled, idempotency_key, map, now, plain, random, uuid, workflow_id,
};

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

//! Inside a workflow: durable calls, their keys, and how they stop.
//!
//! Guarantees that a call's key is claimed where the call is made, that first run and replay see the same value, and
//! that the library's own control flow never passes through the user's code: a call that may not go on stays
//! pending, and the driver drops the workflow. Layer: above the writer, below the executor.

mod ambient;
mod attempt;
mod body;
mod call;
mod concurrent;
mod context;
mod misuse;
mod panic;
mod plain;
mod random;
mod retry;
mod scope;
mod services;
mod site;
mod step;
mod stop;

pub use ambient::{cancelled, idempotency_key, now, random, uuid, workflow_id};
pub use concurrent::map;
#[doc(hidden)]
pub use concurrent::{Arms, arm, concurrent, try_arm};
pub(crate) use context::{Context, ContextParts};
pub(crate) use misuse::misuse;
pub(crate) use panic::{discard, install_hook, words};
pub use plain::plain;
pub use random::{Random, Uuid};
pub use retry::RetryPolicy;
pub(crate) use scope::{Branch, Scope, entered, in_scope, mark_present, scope};
pub(crate) use services::{EventHook, Limits, Services, StateMap};
pub use step::{StepDef, StepFuture, StepMeta, step};
pub(crate) use stop::StopReason;

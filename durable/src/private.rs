//! What the macros expand to. Not part of the public API.

pub use inventory;
pub use serde;
pub use tokio;

pub use crate::client::call;
pub use crate::codec::{Codec, OutcomeCodec, pick};
pub use crate::error::Failure;
pub use crate::registry::WorkflowEntry;
pub use crate::workflow::{Arms, RetryPolicy, StepDef, StepMeta, arm, concurrent, step, try_arm};

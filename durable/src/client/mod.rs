//! The client's side: start a workflow, reach it again, look at it, cancel it, resume it; name queues and limit them.
//!
//! Layer: above the executor, below the runtime.

mod call;
mod handle;
mod many;
mod options;
mod outside;
mod queue;
mod requeue;
mod start;
mod state;

pub use call::call;
pub use handle::{WorkflowHandle, handle};
pub use many::start_many;
pub use options::{OnDuplicate, RunId};
pub use outside::{Client, Enqueue};
pub use requeue::Requeue;
pub use start::Start;
pub use state::state;

use std::panic::Location;
use std::sync::Arc;

use crate::executor::{Engine, current};
use crate::workflow::misuse;

/// The current runtime, or the panic that names the way out.
#[track_caller]
fn engine(what: &str) -> Arc<Engine> {
    engine_at(what, Location::caller())
}

/// The same, for a call that was made there and is awaited now: what counts is where it is awaited.
fn engine_at(what: &str, site: &Location<'_>) -> Arc<Engine> {
    match current::current() {
        Some(engine) => engine,
        None => misuse(
            &format!("{what} needs a runtime"),
            site,
            "call `durable::init().await` first, or run the code unrecorded with `durable::plain(async { .. })`",
        ),
    }
}

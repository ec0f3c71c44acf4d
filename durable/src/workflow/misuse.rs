//! The panics of the library, all of them: durable calls made where they can't be recorded.
//!
//! They are mistakes in code, found at the first run, and no data can cause them; the same choice as tokio's outside
//! of a runtime. Never silently unrecorded. Layer: workflow.

use std::panic::Location;

/// Panics with the place of the call and the way out.
#[expect(clippy::panic, reason = "a durable call outside of its workflow is a bug in the program, as tokio treats it")]
pub(crate) fn misuse(what: &str, site: &Location<'_>, way_out: &str) -> ! {
    panic!("{what} (called at {site}): {way_out}")
}

/// The way out of a durable call that is polled by a task of its own.
pub(crate) const POLLED_ELSEWHERE: &str = "a durable call must be awaited inside the workflow that made it; a spawned task does not \
     belong to the workflow: use `durable::join!`, `durable::try_join!` or `durable::map` instead of `tokio::spawn`";

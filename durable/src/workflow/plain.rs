//! Plain runs: workflows and steps as the ordinary functions they were written as. Layer: workflow.

use std::future::Future;

use super::scope::{Scope, in_scope};

/// Runs a future with every durable call in it plain: nothing is recorded, steps run once, workflows are called like
/// functions, `now()` is the machine's clock. For unit tests.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let id = durable::plain(async { durable::uuid() }).await;
/// assert_ne!(id, durable::plain(async { durable::uuid() }).await);
/// # });
/// ```
pub fn plain<F: Future>(future: F) -> impl Future<Output = F::Output> {
    in_scope(Scope::Plain, future)
}

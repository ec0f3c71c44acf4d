//! Steps: what the attribute describes, and the call that claims a key.
//!
//! Guarantees that the key is claimed where the call is made and not where it is awaited. Layer: workflow.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use super::call::{Call, never};
use super::context::Context;
use super::misuse::{POLLED_ELSEWHERE, misuse};
use super::retry::RetryPolicy;
use super::scope::is_body_of;
use crate::codec::OutcomeCodec;

/// What a step is called, and where it is defined.
#[derive(Clone, Copy, Debug)]
pub struct StepMeta {
    /// The recorded name.
    pub name: &'static str,
    /// The file of the definition.
    pub file: &'static str,
    /// Its line.
    pub line: u32,
    /// Its column.
    pub column: u32,
}

/// A step, as its attribute describes it.
pub struct StepDef<R> {
    /// What it is called, and where it is defined.
    pub meta: StepMeta,
    /// How its outcome is encoded.
    pub codec: OutcomeCodec<R>,
    /// How often it is tried.
    pub retry: RetryPolicy,
    /// Whether an outcome may be tried again; without it every error may, unless it is permanent.
    pub when: Option<fn(&R) -> bool>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
}

pin_project_lite::pin_project! {
    /// A call of a step: its key is claimed, and its body runs when awaited, unless its outcome is recorded.
    #[must_use = "a step does nothing unless awaited"]
    pub struct StepFuture<F> {
        home: Option<(Arc<Context>, &'static Location<'static>)>,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for StepFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Some((context, site)) = this.home
            && !is_body_of(context)
        {
            misuse("a step was polled outside of its workflow", site, POLLED_ELSEWHERE);
        }
        this.future.poll(cx)
    }
}

/// Calls a step. Claims its key here and now; `body` gives one attempt's future each time it is asked, and `None`
/// when it has no more.
#[track_caller]
pub fn step<R, B, Fut>(
    def: StepDef<R>,
    args_hash: Option<u64>,
    mut body: B,
) -> StepFuture<impl Future<Output = R> + Send>
where
    R: Send,
    B: FnMut() -> Option<Fut> + Send,
    Fut: Future<Output = R> + Send,
{
    let call = Call::claim(def.meta, "step", args_hash, Location::caller());
    StepFuture {
        home: call.as_ref().map(Call::home),
        future: async move {
            match call {
                // On the heap: this future is a part of the workflow's, and of every caller's in between.
                Some(call) => Box::pin(call.run(def, body)).await,
                None => match body() {
                    Some(attempt) => attempt.await,
                    None => never().await,
                },
            }
        },
    }
}

/// A future under the guard that it is polled in its own workflow.
pub(super) fn guarded<F: Future>(home: Option<(Arc<Context>, &'static Location<'static>)>, future: F) -> StepFuture<F> {
    StepFuture { home, future }
}

//! Attempts of a step: the body in its scope, a panic caught, the clock held against it, and what follows a failure.
//!
//! Guarantees that a failed attempt is recorded before the next is waited for, so that a restart goes on counting; a
//! permanent failure, or one that `when` declines, is the last. Layer: workflow.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures_util::FutureExt;

use super::call::{Begin, Call, never, printable};
use super::scope::{Scope, in_scope};
use super::step::StepDef;
use super::{discard, words};
use crate::crash::crash_point;
use crate::error::{Failure, FailureKind};
use crate::event::Event;
use crate::model::{AttemptOp, AttemptStatus, Micros, Op};
use crate::replay::Progress;
use crate::writer::Verdict;

impl Call {
    /// Gives the recorded outcome, or runs the body until it has one.
    pub(super) async fn run<R, B, Fut>(self, def: StepDef<R>, mut body: B) -> R
    where
        B: FnMut() -> Option<Fut>,
        Fut: Future<Output = R>,
    {
        let mut progress = match self.begin(def.codec).await {
            Begin::Value(value) => return value,
            Begin::Run(progress) => progress,
        };
        loop {
            self.wait_until(progress.next_attempt_at).await;
            let Some(future) = body() else { return never().await };
            progress.attempt += 1;
            progress.used += 1;
            let started_at = self.context.services.clock.now();
            let running = self.context.bodies.enter(self.key.clone(), self.meta.name, progress.attempt, started_at);
            let end = self.attempt(future, def.timeout).await;
            let view = match &end {
                Ok(value) => (def.codec.error)(value).map(|view| view.failure),
                Err(failure) => Some(failure.clone()),
            };
            if let Some(failure) = view {
                let allowed = match &end {
                    Ok(value) => def.when.is_none_or(|when| when(value)),
                    Err(_) => true,
                };
                let used = u32::try_from(progress.used).unwrap_or(u32::MAX);
                if allowed && !failure.is_permanent() && used < def.retry.max_attempts {
                    let delay = def.retry.delay(used);
                    progress.next_attempt_at = self.record_retry(&progress, started_at, &failure, delay).await;
                    drop(running);
                    if progress.next_attempt_at.is_none() {
                        return never().await;
                    }
                    continue;
                }
            }
            return self.record(def.codec, end, progress.attempt, started_at, Some(running)).await;
        }
    }

    /// One attempt: the body in its scope, a panic caught, the clock held against it.
    async fn attempt<R>(&self, body: impl Future<Output = R>, timeout: Option<Duration>) -> Result<R, Failure> {
        crash_point("in-body");
        let what = format!("step `{}`", self.meta.name);
        let scope = Scope::Step { context: Arc::clone(&self.context), key: self.key.clone(), name: self.meta.name };
        let body = AssertUnwindSafe(in_scope(scope, body)).catch_unwind();
        let end = match timeout {
            None => body.await,
            Some(limit) => match tokio::time::timeout(limit, Undropped::new(body)).await {
                Ok(end) => end,
                Err(_) => {
                    let failure = Failure::new(format!("{what} ran longer than its timeout of {limit:?}"));
                    return Err(failure.with_kind(FailureKind::Timeout));
                }
            },
        };
        end.map_err(|payload| words(&what, payload))
    }

    /// Records a failed attempt, and gives back when the next is due; `None` if the workflow is not to go on.
    async fn record_retry(
        &self,
        progress: &Progress,
        started_at: Micros,
        failure: &Failure,
        delay: Duration,
    ) -> Option<Micros> {
        let ended_at = self.context.services.clock.now();
        let next = ended_at.saturating_add(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX));
        let error = printable(failure.chain());
        let op = Op::Attempt(AttemptOp {
            workflow_id: Arc::clone(&self.context.workflow_id),
            epoch: self.context.epoch,
            key: self.key.clone(),
            step_name: self.meta.name,
            attempt: progress.attempt,
            status: AttemptStatus::Retrying,
            error_message: Some(error.clone()),
            started_at,
            ended_at: Some(ended_at),
            next_attempt_at: Some(next),
        });
        match self.context.submit(op).await {
            Ok(Verdict::Written) => {}
            // The count is worth less than the work: go on, and count in memory.
            Ok(Verdict::Refused(error)) => {
                tracing::warn!(workflow_id = &*self.context.workflow_id, key = %self.key, %error, "a failed attempt could not be recorded");
            }
            _ => return None,
        }
        self.context.services.emit(&Event::Retry {
            workflow_id: &self.context.workflow_id,
            step_name: self.meta.name,
            attempt: u32::try_from(progress.used).unwrap_or(u32::MAX),
            error: &error,
            next_attempt_in: delay,
        });
        Some(next)
    }

    async fn wait_until(&self, due: Option<Micros>) {
        if let Some(due) = due {
            // Again, if the estimate of the database's clock has come down meanwhile.
            while let left @ 1.. = due.saturating_sub(self.context.services.clock.now()) {
                tokio::time::sleep(Duration::from_micros(left.unsigned_abs())).await;
            }
        }
        if self.context.stop.is_requested() {
            never().await
        }
    }
}

/// A body whose `Drop` code may panic without taking the workflow with it: that of an attempt that ran out of time.
struct Undropped<F>(Option<Pin<Box<F>>>);

impl<F> Undropped<F> {
    fn new(body: F) -> Self {
        Self(Some(Box::pin(body)))
    }
}

impl<F: Future> Future for Undropped<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        match self.0.as_mut() {
            Some(body) => body.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Undropped<F> {
    fn drop(&mut self) {
        discard(self.0.take());
    }
}

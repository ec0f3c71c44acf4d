//! Steps: the call that claims a key, the record it gets or makes, and the attempts in between.
//!
//! Guarantees that a body whose record committed never runs again, and that the value handed to the workflow is the
//! decoded copy of what was recorded. A crash can repeat a body that had not committed. Layer: workflow.

use std::future::Future;
use std::panic::{AssertUnwindSafe, Location};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures_util::FutureExt;

use super::body::Running;
use super::context::Context;
use super::misuse::{POLLED_ELSEWHERE, misuse};
use super::retry::RetryPolicy;
use super::scope::{Scope, in_scope, is_body_of, present, scope};
use super::stop::StopReason;
use super::words;

use crate::codec::{Outcome, OutcomeCodec};
use crate::crash::crash_point;
use crate::error::{Failure, FailureKind};
use crate::event::Event;
use crate::ids::StepKey;
use crate::model::{AttemptOp, AttemptStatus, Micros, Op, StepOp};
use crate::replay::{Decision, Progress, Request};
use crate::writer::Verdict;

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
        home: call.as_ref().map(|call| (Arc::clone(&call.context), call.site)),
        future: async move {
            match call {
                Some(call) => call.run(def, body).await,
                None => match body() {
                    Some(attempt) => attempt.await,
                    None => never().await,
                },
            }
        },
    }
}

/// A durable call with its key.
pub(super) struct Call {
    context: Arc<Context>,
    key: StepKey,
    meta: StepMeta,
    kind: &'static str,
    args_hash: Option<i64>,
    site: &'static Location<'static>,
}

/// What a call gets before anything runs.
pub(super) enum Begin<R> {
    Run(Progress),
    Value(R),
}

impl Call {
    /// Claims a key in the current branch; `None` where calls run plainly.
    pub(super) fn claim(
        meta: StepMeta,
        kind: &'static str,
        args_hash: Option<u64>,
        site: &'static Location<'static>,
    ) -> Option<Self> {
        match scope() {
            Some(Scope::Body { context, branch }) => Some(Self {
                context,
                key: branch.claim(),
                meta,
                kind,
                args_hash: args_hash.map(u64::cast_signed),
                site,
            }),
            Some(Scope::Step { name, .. }) => misuse(
                &format!("`{}` was called inside the body of step `{name}`", meta.name),
                site,
                "a step is a leaf; call both from the workflow, or make the inner one an ordinary function",
            ),
            Some(Scope::Plain) => None,
            None if present() => misuse(
                &format!("step `{}` was called outside of a workflow", meta.name),
                site,
                "call it from a `#[workflow]` function, or run it unrecorded with `durable::plain(..)`",
            ),
            None => None,
        }
    }

    /// Looks at the history. Stays pending if the call may not go on.
    pub(super) async fn begin<R>(&self, codec: OutcomeCodec<R>) -> Begin<R> {
        if self.context.stop.is_requested() {
            return never().await;
        }
        let decision = {
            let (call_site, definition_site) = (self.site.to_string(), self.definition_site());
            self.context.decide(&Request {
                key: &self.key,
                kind: self.kind,
                name: self.meta.name,
                call_site: &call_site,
                definition_site: &definition_site,
                args_hash: self.args_hash,
            })
        };
        match decision {
            Decision::Run(progress) => Begin::Run(progress),
            Decision::Blocked(why) => {
                self.context.block(&self.key, &why);
                never().await
            }
            Decision::Replay { outcome, other_arguments } => {
                if other_arguments {
                    tracing::warn!(workflow_id = &*self.context.workflow_id, key = %self.key, step = self.meta.name,
                        "replayed with other arguments than it was recorded with");
                }
                let value = self.decode(codec, &outcome).await;
                self.context.services.emit(&Event::Replayed {
                    workflow_id: &self.context.workflow_id,
                    branch: &self.key.branch,
                    step_index: self.key.index,
                    step_name: self.meta.name,
                });
                Begin::Value(value)
            }
        }
    }

    async fn run<R, B, Fut>(self, def: StepDef<R>, mut body: B) -> R
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
            Some(limit) => match tokio::time::timeout(limit, body).await {
                Ok(end) => end,
                Err(_) => {
                    let failure = Failure::new(format!("{what} ran longer than its timeout of {limit:?}"));
                    return Err(failure.with_kind(FailureKind::Timeout));
                }
            },
        };
        end.map_err(|payload| words(&what, payload.as_ref()))
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
            let left = due.saturating_sub(self.context.services.clock.now());
            if let Ok(left) = u64::try_from(left) {
                tokio::time::sleep(Duration::from_micros(left)).await;
            }
        }
        if self.context.stop.is_requested() {
            never().await
        }
    }

    /// Records the end of the call and gives back the decoded copy of what was recorded. `running` is held until then:
    /// a stop waits for the record of a body that has ended.
    pub(super) async fn record<R>(
        &self,
        codec: OutcomeCodec<R>,
        end: Result<R, Failure>,
        attempts: i32,
        started_at: Micros,
        running: Option<Running<'_>>,
    ) -> R {
        let encoded = match end {
            Ok(value) => self.encode(codec, &value),
            Err(failure) => Err(failure),
        };
        let (outcome, copy) = match encoded {
            Ok((outcome, copy)) => (outcome, Some(copy)),
            Err(failure) => (Outcome::failure(&failure), None),
        };
        let recorded = self.commit(outcome, attempts, started_at).await;
        drop(running);
        let Some((outcome, own)) = recorded else { return never().await };
        self.context.services.emit(&Event::Checkpoint {
            workflow_id: &self.context.workflow_id,
            branch: &self.key.branch,
            step_index: self.key.index,
            step_name: self.meta.name,
            is_error: matches!(outcome, Outcome::Error { .. }),
        });
        crash_point("after-checkpoint");
        if self.context.stop.is_requested() {
            return never().await;
        }
        match copy {
            Some(copy) if own => copy,
            _ => self.decode(codec, &outcome).await,
        }
    }

    /// Commits an outcome: gives back what is recorded now, and whether it is the one given. `None` if nothing is,
    /// because the workflow is not to go on.
    async fn commit(&self, mut outcome: Outcome, attempts: i32, started_at: Micros) -> Option<(Outcome, bool)> {
        // Made once: a repeated write must be recognized as the same.
        let (write_id, seq) = (fastrand::i64(..), self.context.next_seq());
        let mut own = true;
        loop {
            if let Outcome::Error { message, .. } = &mut outcome {
                *message = printable(std::mem::take(message));
            }
            let op = Op::Step(StepOp {
                workflow_id: Arc::clone(&self.context.workflow_id),
                epoch: self.context.epoch,
                key: self.key.clone(),
                seq,
                kind: self.kind,
                step_name: self.meta.name,
                outcome: outcome.clone(),
                args_hash: self.args_hash,
                call_site: self.site.to_string().into(),
                definition_site: self.definition_site().into(),
                attempts,
                started_at,
                completed_at: self.context.services.clock.now(),
                write_id,
            });
            match self.context.submit(op).await {
                Ok(Verdict::Written) => return Some((outcome, own)),
                Ok(Verdict::Taken(record)) => match record.outcome {
                    // Somebody recorded it first: everybody takes that.
                    Ok(stored) => return Some((stored, false)),
                    Err(why) => {
                        self.context.block(&self.key, &why);
                        return None;
                    }
                },
                Ok(Verdict::Refused(error)) => {
                    let failure = Failure::permanent(format!(
                        "the outcome of step `{}` was refused: {}",
                        self.meta.name,
                        error.again()
                    ));
                    (outcome, own) = (Outcome::failure(&failure.with_kind(FailureKind::Payload)), false);
                }
                _ => return None,
            }
        }
    }

    /// The encoded outcome and its decoded copy: what does not read back is found before it is written.
    fn encode<R>(&self, codec: OutcomeCodec<R>, value: &R) -> Result<(Outcome, R), Failure> {
        let name = self.meta.name;
        let refuse = |why: String| Failure::permanent(why).with_kind(FailureKind::Payload);
        let outcome = (codec.encode)(value)
            .map_err(|error| refuse(format!("the outcome of step `{name}` can't be recorded: {error}")))?;
        let (size, limits) = (outcome.payload().size(), self.context.services.limits);
        if size > limits.payload_max {
            return Err(refuse(format!(
                "the outcome of step `{name}` has {size} bytes, the limit is {}: store it elsewhere and return a reference, or raise the limit",
                limits.payload_max
            )));
        }
        if size > limits.payload_warn {
            tracing::warn!(
                workflow_id = &*self.context.workflow_id,
                step = name,
                size,
                "the outcome of a step is large"
            );
        }
        let copy = (codec.decode)(&outcome).map_err(|error| {
            refuse(format!("the outcome of step `{name}` does not read back as it was written: {error}"))
        })?;
        Ok((outcome, copy))
    }

    /// The value of a recorded outcome. Where the type can't express it, the workflow ends and the call stays pending.
    async fn decode<R>(&self, codec: OutcomeCodec<R>, outcome: &Outcome) -> R {
        match (codec.decode)(outcome) {
            Ok(value) => value,
            Err(error) => {
                match outcome {
                    // The library's own failure, at a type with no room for it.
                    Outcome::Error { message, .. } if codec.from_failure.is_none() => {
                        self.context.stop.request(StopReason::Failed(Failure::new(message.clone())));
                    }
                    _ => self.context.block(
                        &self.key,
                        &format!(
                            "the recorded outcome of step `{}` at {} can't be decoded as its type of today: {error}; deploy code that reads it, or repair the row, then resume the workflow",
                            self.meta.name, self.key
                        ),
                    ),
                }
                never().await
            }
        }
    }

    fn definition_site(&self) -> String {
        format!("{}:{}:{}", self.meta.file, self.meta.line, self.meta.column)
    }

    pub(super) fn key(&self) -> &StepKey {
        &self.key
    }

    /// The message of the recorded failure under this key, if there is one; looked at without running anything.
    pub(super) async fn recorded_failure(&self) -> Option<String> {
        match self.begin(crate::__outcome!(Result<(), Failure>, json)).await {
            Begin::Run(_) => None,
            Begin::Value(value) => value.err().map(|failure| failure.message().to_owned()),
        }
    }

    /// The recorded race was lost by an arm that now ends well.
    pub(super) fn block_race(&self, arm: usize) {
        let why = format!(
            "diverged at {}: recorded is that arm {arm} of this `{}` failed first, and now it succeeds; usual cause: the code \
             changed under a running workflow; deploy code that fails here as recorded, then resume the workflow",
            self.key, self.meta.name
        );
        self.context.block(&self.key, &why);
    }

    /// The database's time.
    pub(super) fn clock_now(&self) -> Micros {
        self.context.services.clock.now()
    }

    /// Where the call belongs.
    pub(super) fn home(&self) -> (Arc<Context>, &'static Location<'static>) {
        (Arc::clone(&self.context), self.site)
    }
}

/// A future under the guard that it is polled in its own workflow.
pub(super) fn guarded<F: Future>(home: Option<(Arc<Context>, &'static Location<'static>)>, future: F) -> StepFuture<F> {
    StepFuture { home, future }
}

/// Stays pending: the driver ends the workflow.
pub(super) async fn never<T>() -> T {
    std::future::pending().await
}

/// A text column of Postgres can't hold U+0000; a payload can.
pub(super) fn printable(message: String) -> String {
    if message.contains('\0') { message.replace('\0', "\u{fffd}") } else { message }
}

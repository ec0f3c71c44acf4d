//! Durable calls: a key, what the history holds under it, and the record that a call without one makes.
//!
//! Guarantees that a body whose record committed never runs again, and that the value handed to the workflow is the
//! decoded copy of what was recorded. A crash can repeat a body that had not committed. Layer: workflow.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::body::Running;
use super::context::Context;
use super::misuse::misuse;
use super::scope::{Scope, present, scope};
use super::site;
use super::step::StepMeta;
use super::stop::StopReason;
use crate::codec::{Outcome, OutcomeCodec};
use crate::crash::crash_point;
use crate::error::{Failure, FailureKind};
use crate::event::Event;
use crate::ids::{MAX_BRANCH_BYTES, StepKey};
use crate::model::{Micros, Op, Site, StepOp};
use crate::replay::{Decision, Progress, Request};
use crate::writer::Verdict;

/// A durable call with its key.
pub(super) struct Call {
    pub(super) context: Arc<Context>,
    pub(super) key: StepKey,
    pub(super) meta: StepMeta,
    kind: &'static str,
    args_hash: Option<i64>,
    location: &'static Location<'static>,
}

/// What stands under a key after a commit.
enum Recorded {
    /// The outcome that was given.
    Own,
    /// Another one.
    Other(Outcome),
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
                location: site,
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
                "call it from a `#[workflow]` function, or run it unrecorded with `durable::plain(async { .. })`",
            ),
            None => None,
        }
    }

    fn decide(&self) -> Decision {
        if self.context.is_fresh() {
            return Decision::Run(Progress::default());
        }
        let site = self.site();
        self.context.decide(&Request { key: &self.key, kind: self.kind, site: &site, args_hash: self.args_hash })
    }

    /// Blocks the workflow if the history has another kind of call here, and fails it if its arms can't have keys.
    pub(super) fn check(&self) {
        if self.key.branch.len() > MAX_BRANCH_BYTES {
            self.context.stop.request(StopReason::Failed(Failure::permanent(format!(
                "`{}` called at {} is nested too deep: the path of its branch has {} bytes, the limit is {MAX_BRANCH_BYTES}; \
                 make the inner calls one after the other, or a step of their own",
                self.meta.name,
                self.location,
                self.key.branch.len()
            ))));
        }
        if let Decision::Blocked(why) = self.decide() {
            self.context.block(&self.key, &why);
        }
    }

    /// Looks at the history. Stays pending if the call may not go on.
    pub(super) async fn begin<R>(&self, codec: OutcomeCodec<R>) -> Begin<R> {
        if self.context.stop.is_requested() {
            return never().await;
        }
        match self.decide() {
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
        let mut is_error = matches!(outcome, Outcome::Error { .. });
        let unread = copy.is_none().then(|| outcome.clone());
        let recorded = self.commit(outcome, attempts, started_at).await;
        drop(running);
        let Some(recorded) = recorded else { return never().await };
        if let Recorded::Other(other) = &recorded {
            is_error = matches!(other, Outcome::Error { .. });
        }
        self.context.services.emit(&Event::Checkpoint {
            workflow_id: &self.context.workflow_id,
            branch: &self.key.branch,
            step_index: self.key.index,
            step_name: self.meta.name,
            is_error,
        });
        crash_point("after-checkpoint");
        if self.context.stop.is_requested() {
            return never().await;
        }
        match (recorded, copy, unread) {
            (Recorded::Other(outcome), _, _) | (Recorded::Own, None, Some(outcome)) => {
                self.decode(codec, &outcome).await
            }
            (Recorded::Own, Some(copy), _) => copy,
            // One of the two is there.
            (Recorded::Own, None, None) => never().await,
        }
    }

    /// Commits an outcome. `None` if nothing is recorded, because the workflow is not to go on.
    async fn commit(&self, mut outcome: Outcome, attempts: i32, started_at: Micros) -> Option<Recorded> {
        // Made once: a repeated write must be recognized as the same.
        let (write_id, seq) = (fastrand::i64(..), self.context.next_seq());
        let (mut other, site) = (None, self.site());
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
                site: Arc::clone(&site),
                outcome,
                args_hash: self.args_hash,
                attempts,
                started_at: started_at.min(self.context.cancelled_at.load(Ordering::SeqCst)),
                completed_at: self.context.services.clock.now(),
                write_id,
            });
            match self.context.submit(op).await {
                Ok(Verdict::Written) => {
                    self.context.progress();
                    return Some(other.map_or(Recorded::Own, Recorded::Other));
                }
                Ok(Verdict::Taken(record)) => match record.outcome {
                    // Somebody recorded it first: everybody takes that.
                    Ok(stored) => return Some(Recorded::Other(stored)),
                    Err(why) => {
                        self.context.block(&self.key, &why);
                        return None;
                    }
                },
                // Not even the refusal in words is taken: there is no record to make.
                Ok(Verdict::Refused(error)) if other.is_some() => {
                    self.context.stop.request(StopReason::Failed(Failure::permanent(format!(
                        "the outcome of step `{}` at {} can't be recorded: {}",
                        self.meta.name,
                        self.key,
                        error.again()
                    ))));
                    return None;
                }
                Ok(Verdict::Refused(error)) => {
                    let failure = Failure::permanent(format!(
                        "the outcome of step `{}` was refused: {}",
                        self.meta.name,
                        error.again()
                    ));
                    outcome = Outcome::failure(&failure.with_kind(FailureKind::Payload));
                    other = Some(outcome.clone());
                }
                _ => return None,
            }
        }
    }

    /// The encoded outcome and its decoded copy: what does not read back is found before it is written.
    fn encode<R>(&self, codec: OutcomeCodec<R>, value: &R) -> Result<(Outcome, R), Failure> {
        let name = self.meta.name;
        let refuse = |why: String| Failure::permanent(why).with_kind(FailureKind::Payload);
        let outcome = (codec.encode)(value).map_err(|error| {
            refuse(match (codec.error)(value) {
                Some(view) => {
                    format!("the error of step `{name}` can't be recorded: {error}; it says: {}", view.failure.chain())
                }
                None => format!("the outcome of step `{name}` can't be recorded: {error}"),
            })
        })?;
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

    fn site(&self) -> Arc<Site> {
        site::of(self.location, &self.meta)
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
        (Arc::clone(&self.context), self.location)
    }
}

/// Stays pending: the driver ends the workflow.
pub(super) async fn never<T>() -> T {
    std::future::pending().await
}

/// A text column of Postgres can't hold U+0000; a payload can.
pub(super) fn printable(message: String) -> String {
    if message.contains('\0') { message.replace('\0', "\u{fffd}") } else { message }
}

//! The driver: polls a workflow's body, and nothing of it after a stop or past the lease.
//!
//! Looks at the stop and at the age of the last acknowledged heartbeat before every poll. Takes up what the calls in
//! the body want written, and writes a lone operation itself. Layer: executor.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Sleep;

use super::current;
use super::endings::Ending;
use super::engine::{Engine, Run};
use super::identity::Identity;
use crate::clock::since_boot;
use crate::codec::{Codec, Outcome};
use crate::crash::crash_point;
use crate::error::{Failure, FailureKind};
use crate::event::Event;
use crate::model::{Op, SettleOp, StoredInput, WorkflowStatus};
use crate::registry::{BodyFuture, WorkflowEntry};
use crate::replay::History;
use crate::workflow::{Branch, Context, ContextParts, Scope, StopReason, discard, in_scope, words};
use crate::writer::{Pending, Verdict};

/// A workflow to run.
pub(super) struct Job {
    pub(super) workflow_id: Arc<str>,
    pub(super) entry: &'static WorkflowEntry,
    pub(super) epoch: i32,
    pub(super) seed: i64,
    /// Or why there is none.
    pub(super) input: Result<StoredInput, String>,
    pub(super) history: History,
    /// True if it comes from a claim and not from its own start.
    pub(super) recovered: bool,
    pub(super) identity: Arc<Identity>,
    pub(super) slot: OwnedSemaphorePermit,
}

/// How the body came to its end.
enum End {
    Returned(Result<Outcome, Failure>),
    Stopped(StopReason),
}

/// Runs a workflow to its end, or to where it stops running here.
pub(super) async fn drive(engine: Arc<Engine>, job: Job) {
    let Job { workflow_id, entry, epoch, seed, input, history, recovered, identity, slot } = job;
    let recorded_steps = history.len();
    let parts =
        ContextParts { workflow_id, name: entry.name, epoch, seed, services: Arc::clone(&engine.services), history };
    let context = Context::new(parts);
    let run = Arc::new(Run { context: Arc::clone(&context), identity, polling_since: AtomicU64::new(0) });
    engine.running.insert(&run);
    if engine.is_closing() {
        context.stop.request(StopReason::Shutdown);
    }
    engine.services.emit(&Event::Started {
        workflow_id: &context.workflow_id,
        name: entry.name,
        recovered,
        recorded_steps,
    });
    let body = match input {
        Err(why) => Err(format!("its input {why}")),
        Ok(input) => {
            // `Deserialize` is the user's code as well.
            let begun = catch_unwind(AssertUnwindSafe(|| (entry.begin)(input, engine.services.limits)));
            let begun = begun.unwrap_or_else(|payload| Err(words("decoding", payload).chain()));
            begun.map_err(|why| {
                format!("its input can't be decoded as the arguments of today: {why}; deploy code that reads it, or repair the row")
            })
        }
    };
    let end = match body {
        Ok(body) => {
            let scope = Scope::Body { context: Arc::clone(&context), branch: Branch::new("".into()) };
            let body: BodyFuture = Box::pin(in_scope(scope, body));
            let driver = Driver {
                run: Arc::clone(&run),
                body: Some(body),
                lead: None,
                end: None,
                timer: None,
                grace: engine.settings.cancel_grace,
            };
            current::enter(Arc::clone(&engine), driver).await
        }
        Err(why) => End::Stopped(StopReason::Blocked(format!("{why}, then resume the workflow"))),
    };
    crash_point("before-settle");
    let ending = settle(&engine, &run, end).await;
    engine.running.remove(&run);
    engine.services.emit(&Event::Ended { workflow_id: &context.workflow_id, name: entry.name, status: ending.status });
    if ending.status.is_settled() {
        engine.endings.tell(&context.workflow_id, &ending);
    }
    drop(slot);
    engine.slot_is_free();
}

struct Driver {
    run: Arc<Run>,
    body: Option<BodyFuture>,
    /// The write of a lone operation, driven here; never dropped half-way.
    lead: Option<BoxFuture<'static, ()>>,
    end: Option<End>,
    /// The grace of a stop, or the wait for a heartbeat.
    timer: Option<(Pin<Box<Sleep>>, Wait)>,
    grace: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Grace,
    Heartbeat,
}

impl Driver {
    fn finish(&mut self, end: End) {
        self.end = Some(end);
        // The user's `Drop` code may panic as well as any other.
        if let Some(body) = self.body.take() {
            discard(body);
        }
    }

    /// What a requested stop does now. `false` if the body may be polled once more.
    fn heed_stop(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let context = Arc::clone(&self.run.context);
        context.stop.register(cx.waker());
        let Some(reason) = context.stop.reason() else { return false };
        match reason {
            StopReason::Cancelled | StopReason::Shutdown => {
                let grace = self.grace;
                let passed = self.wait(cx, Wait::Grace, || grace);
                if context.bodies.is_empty() || passed {
                    self.finish(End::Stopped(reason));
                    return true;
                }
                false
            }
            StopReason::Fenced | StopReason::Blocked(_) | StopReason::Failed(_) => {
                self.finish(End::Stopped(reason));
                true
            }
        }
    }

    /// Waits once for a purpose; true when that has passed.
    fn wait(&mut self, cx: &mut TaskContext<'_>, purpose: Wait, time: impl FnOnce() -> Duration) -> bool {
        if !self.timer.as_ref().is_some_and(|(_, held)| *held == purpose) {
            self.timer = Some((Box::pin(tokio::time::sleep(time())), purpose));
        }
        let passed = self.timer.as_mut().is_some_and(|(timer, _)| timer.as_mut().poll(cx).is_ready());
        if passed && purpose == Wait::Heartbeat {
            self.timer = None;
        }
        passed
    }

    fn poll_body(&mut self, cx: &mut TaskContext<'_>) {
        let Some(body) = self.body.as_mut() else { return };
        let polling = &self.run.polling_since;
        polling.store(u64::try_from(since_boot().as_micros()).unwrap_or(u64::MAX), Ordering::Release);
        let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(cx)));
        polling.store(0, Ordering::Release);
        match polled {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(end)) => self.finish(End::Returned(end)),
            Err(payload) => {
                let what = format!("workflow `{}`", self.run.context.name);
                self.finish(End::Returned(Err(words(&what, payload))));
            }
        }
    }

    /// Sends what the calls handed over: one alone directly, if the connection is free. True if that is to be driven.
    fn send_outbox(&mut self) -> bool {
        let mut outbox = self.run.context.outbox();
        if outbox.is_empty() {
            return false;
        }
        let writer = self.run.identity.writer(&self.run.context.workflow_id);
        if outbox.len() == 1 && self.lead.is_none() {
            self.lead = outbox.pop().and_then(|pending| writer.submit(pending));
            return self.lead.is_some();
        }
        for pending in outbox.drain(..) {
            writer.enqueue(pending);
        }
        false
    }

    /// Drives the write of a lone operation. True if it has ended.
    fn poll_lead(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let ended = self.lead.as_mut().is_some_and(|lead| lead.as_mut().poll(cx).is_ready());
        if ended {
            self.lead = None;
        }
        ended
    }
}

impl Future for Driver {
    type Output = End;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<End> {
        loop {
            if !self.poll_lead(cx)
                && let Some(lead) = self.lead.take()
            {
                // Something else woke us. The write holds the writer's connection, and must not wait for a body that may
                // block its thread.
                tokio::spawn(lead);
            }
            let mut fresh = false;
            if self.end.is_none() && !self.heed_stop(cx) {
                if self.run.identity.may_poll() {
                    self.poll_body(cx);
                    fresh = self.send_outbox();
                    if self.end.is_none() {
                        // The body that a stop waited for may have ended in this poll.
                        self.heed_stop(cx);
                    }
                } else if self.run.identity.health.is_lost() {
                    self.finish(End::Stopped(StopReason::Fenced));
                } else {
                    // The lease is over as far as we know: wait for a heartbeat, or for the news that it was taken.
                    while self.wait(cx, Wait::Heartbeat, || Duration::from_millis(50)) {}
                }
            }
            if fresh && self.poll_lead(cx) {
                continue;
            }
            if self.lead.is_none()
                && let Some(end) = self.end.take()
            {
                return Poll::Ready(end);
            }
            return Poll::Pending;
        }
    }
}

/// Records the end, if it is ours to record.
async fn settle(engine: &Arc<Engine>, run: &Arc<Run>, end: End) -> Ending {
    let context = &run.context;
    let quiet = |status| Ending { status, outcome: None };
    let mut op = match end {
        End::Stopped(StopReason::Cancelled) => return quiet(WorkflowStatus::Cancelled),
        End::Stopped(StopReason::Shutdown) => return quiet(WorkflowStatus::Pending),
        End::Stopped(StopReason::Fenced) => return quiet(WorkflowStatus::Running),
        End::Stopped(StopReason::Blocked(why)) => {
            tracing::error!(workflow_id = &*context.workflow_id, name = context.name, why, "workflow is blocked");
            settle_op(context, WorkflowStatus::Blocked, None, Some(why))
        }
        End::Stopped(StopReason::Failed(failure)) | End::Returned(Err(failure)) => failed(context, &failure),
        End::Returned(Ok(outcome @ Outcome::Done(_))) => settle_op(context, WorkflowStatus::Done, Some(outcome), None),
        End::Returned(Ok(outcome)) => {
            let message = match &outcome {
                Outcome::Error { message, .. } => Some(message.clone()),
                Outcome::Done(_) => None,
            };
            settle_op(context, WorkflowStatus::Failed, Some(outcome), message)
        }
    };
    loop {
        let (status, result) = (op.status, op.result.clone());
        let (reply, verdict) = oneshot::channel();
        let pending = Pending { op: Op::Settle(op), on_fence: None, reply, give_up_at: None };
        if let Some(lead) = run.identity.writer(&context.workflow_id).submit(pending) {
            lead.await;
        }
        match verdict.await {
            Ok(Verdict::Written) => return Ending { status, outcome: result },
            Ok(Verdict::Refused(error)) => {
                let failure = Failure::permanent(format!(
                    "the result of workflow `{}` was refused: {}",
                    context.name,
                    error.again()
                ));
                op = failed(context, &failure.with_kind(FailureKind::Payload));
            }
            Ok(Verdict::Fenced(Some(row))) if row.status == WorkflowStatus::Cancelled && row.epoch == context.epoch => {
                return quiet(WorkflowStatus::Cancelled);
            }
            Ok(_) => return quiet(WorkflowStatus::Running),
            // The writer is gone with its executor.
            Err(_) => {
                return quiet(if engine.is_closing() { WorkflowStatus::Pending } else { WorkflowStatus::Running });
            }
        }
    }
}

fn failed(context: &Context, failure: &Failure) -> SettleOp {
    settle_op(context, WorkflowStatus::Failed, Some(Outcome::failure(failure)), Some(failure.chain()))
}

fn settle_op(context: &Context, status: WorkflowStatus, result: Option<Outcome>, message: Option<String>) -> SettleOp {
    debug_assert!(result.as_ref().is_none_or(|outcome| Codec::from_id(outcome.payload().codec).is_some()));
    SettleOp {
        workflow_id: Arc::clone(&context.workflow_id),
        epoch: context.epoch,
        status,
        reason: (status == WorkflowStatus::Blocked).then(|| "blocked".to_owned()),
        error_message: message.map(|message| message.replace('\0', "\u{fffd}")),
        result,
        write_id: fastrand::i64(..),
    }
}

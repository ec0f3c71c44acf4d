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
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::current;
use super::engine::{Engine, Run};
use super::identity::Identity;
use super::settle::{again, retry, settle};
use crate::clock::since_boot;
use crate::codec::Outcome;
use crate::crash::crash_point;
use crate::error::Failure;
use crate::event::Event;
use crate::model::StoredInput;
use crate::registry::{BodyFuture, WorkflowEntry};
use crate::replay::History;
use crate::workflow::{Branch, Context, ContextParts, Scope, StopReason, discard, in_scope, words};

/// A workflow to run.
pub(super) struct Job {
    pub(super) workflow_id: Arc<str>,
    pub(super) entry: &'static WorkflowEntry,
    pub(super) epoch: i32,
    pub(super) seed: i64,
    /// The workflow attempt, from 1.
    pub(super) attempt: i32,
    /// Whether it comes from a claim, not from its own start.
    pub(super) claimed: bool,
    /// Or why there is none.
    pub(super) input: Result<StoredInput, String>,
    pub(super) history: History,
    /// True if it ran before, here or elsewhere.
    pub(super) recovered: bool,
    pub(super) identity: Arc<Identity>,
    pub(super) slot: OwnedSemaphorePermit,
}

/// How the body came to its end.
pub(super) enum End {
    Returned(Result<Outcome, Failure>),
    Stopped(StopReason),
}

/// Runs a workflow to its end, or to where it stops running here.
pub(super) async fn drive(engine: Arc<Engine>, job: Job) {
    let Job { workflow_id, entry, epoch, seed, attempt, claimed, input, history, recovered, identity, slot } = job;
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
    let ending = match again(entry, attempt, &end) {
        Some((delay, why)) => retry(&engine, &run, delay, &why).await,
        None => settle(&engine, &run, end, entry.retry.max_attempts > 1).await,
    };
    engine.running.remove(&run);
    engine.services.emit(&Event::Ended { workflow_id: &context.workflow_id, name: entry.name, status: ending.status });
    if ending.status.is_settled() {
        engine.endings.tell(&context.workflow_id, &ending);
    }
    drop(slot);
    engine.slot_is_free(claimed);
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

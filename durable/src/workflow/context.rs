//! One run of one workflow in this process: identity, history, and what its calls hand to the driver.
//!
//! Guarantees that operations leave only through the driver: a call in the user's future puts a row here and stays
//! pending, so no dropped user future holds a connection. Layer: workflow.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::body::Bodies;
use super::services::Services;
use super::stop::{Stop, StopReason};
use crate::ids::StepKey;
use crate::model::{AttemptOp, AttemptStatus, Micros, Op, WorkflowState, WorkflowStatus};
use crate::replay::{Decision, History, Request};
use crate::writer::{OnFence, Pending, Verdict};

/// One run of one workflow.
pub(crate) struct Context {
    pub(crate) workflow_id: Arc<str>,
    pub(crate) name: &'static str,
    pub(crate) epoch: i32,
    pub(crate) seed: i64,
    pub(crate) services: Arc<Services>,
    pub(crate) stop: Stop,
    pub(crate) bodies: Bodies,
    /// When it was cancelled by this process: no body that runs then has started later, whatever the estimate says.
    pub(crate) cancelled_at: AtomicI64,
    history: Mutex<History>,
    outbox: Mutex<Vec<Pending>>,
    seq: AtomicI64,
    fresh: bool,
    progressed: AtomicBool,
    /// The latest time that the workflow was told.
    told_time: AtomicI64,
}

/// What a run is made from.
pub(crate) struct ContextParts {
    pub(crate) workflow_id: Arc<str>,
    pub(crate) name: &'static str,
    pub(crate) epoch: i32,
    pub(crate) seed: i64,
    pub(crate) services: Arc<Services>,
    pub(crate) history: History,
}

impl Context {
    pub(crate) fn new(parts: ContextParts) -> Arc<Self> {
        let ContextParts { workflow_id, name, epoch, seed, services, history } = parts;
        Arc::new(Self {
            workflow_id,
            name,
            epoch,
            seed,
            services,
            stop: Stop::default(),
            bodies: Bodies::default(),
            cancelled_at: AtomicI64::new(i64::MAX),
            seq: AtomicI64::new(history.last_seq()),
            fresh: history.is_empty(),
            history: Mutex::new(history),
            outbox: Mutex::default(),
            progressed: AtomicBool::new(false),
            told_time: AtomicI64::new(i64::MIN),
        })
    }

    /// True if nothing is recorded that a call could get.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// What a call gets from the history.
    pub(super) fn decide(&self, request: &Request<'_>) -> Decision {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).decide(request)
    }

    /// Notes that a step was recorded in this run.
    pub(super) fn progress(&self) {
        self.progressed.store(true, Ordering::Relaxed);
    }

    /// True once a step was recorded in this run.
    pub(crate) fn has_progressed(&self) -> bool {
        self.progressed.load(Ordering::Relaxed)
    }

    /// A time for the workflow: the given one, or the latest that it was told before, if that is later.
    pub(super) fn not_before(&self, time: Micros) -> Micros {
        self.told_time.fetch_max(time, Ordering::Relaxed).max(time)
    }

    /// The next order number.
    pub(super) fn next_seq(&self) -> i64 {
        self.seq.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Hands an operation to the driver. To be called from within the driver's poll, which takes it up right after.
    pub(super) fn submit(self: &Arc<Self>, op: Op) -> oneshot::Receiver<Verdict> {
        let (reply, verdict) = oneshot::channel();
        self.outbox().push(self.pending(op, reply));
        verdict
    }

    /// What the calls handed over since the last time: taken out one by one, so that the list keeps its room.
    pub(crate) fn outbox(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(self: &Arc<Self>, op: Op, reply: oneshot::Sender<Verdict>) -> Pending {
        let on_fence: Arc<dyn OnFence> = Arc::clone(self) as Arc<dyn OnFence>;
        Pending { op, on_fence: Some(on_fence), reply, give_up_at: None }
    }

    /// Notes on step bodies that have run for a while and that nobody has noted yet.
    pub(crate) fn notes_on_long_bodies(self: &Arc<Self>) -> Vec<Pending> {
        let long = self.bodies.take_long();
        long.into_iter()
            .map(|body| {
                let op = Op::Attempt(AttemptOp {
                    workflow_id: Arc::clone(&self.workflow_id),
                    epoch: self.epoch,
                    key: body.key,
                    step_name: body.name,
                    attempt: body.attempt,
                    status: AttemptStatus::Running,
                    error_message: None,
                    started_at: body.started_at,
                    ended_at: None,
                    next_attempt_at: None,
                });
                self.pending(op, oneshot::channel().0)
            })
            .collect()
    }

    /// Ends the body for a reason that names the call; the caller then stays pending.
    pub(super) fn block(&self, key: &StepKey, why: &str) {
        tracing::error!(workflow_id = &*self.workflow_id, name = self.name, %key, why, "workflow is blocked");
        self.stop.request(StopReason::Blocked(why.to_owned()));
    }
}

impl OnFence for Context {
    fn fenced(&self, state: Option<&WorkflowState>) {
        // Cancelled under our own epoch: the bodies that run have their grace, and may still record their outcome.
        let cancelled = state.is_some_and(|row| row.status == WorkflowStatus::Cancelled && row.epoch == self.epoch);
        self.stop.request(if cancelled { StopReason::Cancelled } else { StopReason::Fenced });
    }
}

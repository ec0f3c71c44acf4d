//! The writer: group commit of everything an executor records.
//!
//! A workflow is bound to one writer by the hash of its id; its operations are sent, committed and answered in the
//! order they came. Batches form from whatever waits; no timer delays a lone operation, which is written directly
//! on the writer's connection when that is free. Layer: above the stores, below workflows.

mod backlog;
mod batch;
mod flush;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::model::{Op, StepRecord, WorkflowState};
use crate::store::StoreError;
use crate::store::write::WriterConnection;
use backlog::Backlog;
use batch::Batch;
pub(crate) use flush::Chain;

use batch::MAX_ROWS;

/// What became of an operation.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is committed.
    Written,
    /// A start found the id taken.
    Exists,
    /// A start that was to run here found its queue limited or paused: it is not recorded.
    Limited,
    /// A step found its key taken by another writer's record, which counts for everybody.
    Taken(Box<StepRecord>),
    /// The workflow is not ours any more; its row, if there is one and only it was taken away.
    Fenced(Option<Box<WorkflowState>>),
    /// It is not written and will not be: the database refuses the value, or a start waited long enough.
    Refused(StoreError),
}

/// An operation that waits for its verdict.
pub(crate) struct Pending {
    pub(crate) op: Op,
    /// Told of a refusal even if nobody waits for the verdict any more.
    pub(crate) on_fence: Option<Arc<dyn OnFence>>,
    pub(crate) reply: oneshot::Sender<Verdict>,
    /// When a start gives up on a database that is away; recorded work never does.
    pub(crate) give_up_at: Option<Instant>,
}

/// Told that the database refused a write because another owns the workflow.
pub(crate) trait OnFence: Send + Sync {
    fn fenced(&self, state: Option<&WorkflowState>);
}

/// What the writers of one executor share.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Set when a lease row turned out to be void: this executor was declared dead.
    lost: AtomicBool,
    /// Set when what still waits is to be dropped.
    abandoned: AtomicBool,
    changed: Notify,
    /// Why records wait now, and a flag that spares a flush the lock.
    trouble: std::sync::Mutex<Option<StoreError>>,
    troubled: AtomicBool,
    logged_at: std::sync::Mutex<Option<Instant>>,
}

/// Nothing waits for longer than this without a word in the log, and nothing says it more often.
const LOG_EVERY: Duration = Duration::from_secs(10);

impl Health {
    /// Notes why records wait, or that they wait no more.
    fn note(&self, trouble: Option<&StoreError>) {
        if trouble.is_none() && !self.troubled.load(Ordering::Acquire) {
            return;
        }
        let mut held = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *held = trouble.map(StoreError::again);
        self.troubled.store(held.is_some(), Ordering::Release);
    }

    /// Why records wait now, if they do. An operation that is queued behind them waits with them.
    pub(crate) fn trouble(&self) -> Option<StoreError> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(StoreError::again)
    }

    pub(crate) fn lose(&self) {
        if !self.lost.swap(true, Ordering::SeqCst) {
            self.changed.notify_waiters();
            self.changed.notify_one();
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// True if it is time for another word in the log, and notes that it is said.
    fn may_log(&self) -> bool {
        let mut logged_at = self.logged_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let due = logged_at.is_none_or(|at| at.elapsed() >= LOG_EVERY);
        if due {
            *logged_at = Some(Instant::now());
        }
        due
    }

    /// Sleeps, but not past an abandonment.
    async fn pause(&self, duration: Duration) {
        let _ = tokio::time::timeout(duration, self.changed.notified()).await;
    }

    /// Resolves when the executor is lost.
    pub(crate) async fn lost(&self) {
        while !self.is_lost() {
            self.changed.notified().await;
        }
    }
}

/// One writer.
pub(crate) struct Writer {
    queue: mpsc::UnboundedSender<Pending>,
    lane: Arc<Lane>,
}

struct Lane {
    connection: Arc<Mutex<Box<dyn WriterConnection>>>,
    queued: AtomicUsize,
    health: Arc<Health>,
}

impl Writer {
    /// Starts a writer's task on the current tokio runtime.
    pub(crate) fn start(connection: Box<dyn WriterConnection>, health: Arc<Health>) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        let lane = Arc::new(Lane { connection: Arc::new(Mutex::new(connection)), queued: AtomicUsize::new(0), health });
        tokio::spawn(run(Arc::clone(&lane), waiting));
        Self { queue, lane }
    }

    /// Queues an operation. If nothing else waits and the connection is free, gives back the future that writes it:
    /// the caller, an engine task, drives that future to its end.
    pub(crate) fn submit(&self, pending: Pending) -> Option<BoxFuture<'static, ()>> {
        if self.lane.queued.load(Ordering::Acquire) == 0
            && let Ok(mut connection) = Arc::clone(&self.lane.connection).try_lock_owned()
        {
            let lane = Arc::clone(&self.lane);
            return Some(Box::pin(async move {
                flush::flush(&mut **connection, Batch::of(pending), &lane.health).await;
            }));
        }
        self.enqueue(pending);
        None
    }

    /// Queues an operation for the writer's own task.
    pub(crate) fn enqueue(&self, pending: Pending) {
        self.lane.queued.fetch_add(1, Ordering::AcqRel);
        if self.queue.send(pending).is_err() {
            // The task ended with the runtime; the reply is dropped, which its waiter takes as the end.
            self.lane.queued.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

async fn run(lane: Arc<Lane>, mut waiting: mpsc::UnboundedReceiver<Pending>) {
    let (mut taken, mut backlog) = (Vec::new(), Backlog::default());
    loop {
        if backlog.is_empty() && waiting.recv_many(&mut taken, MAX_ROWS).await == 0 {
            return;
        }
        // Whoever is about to submit gets the chance to: fuller batches, no timer.
        for _ in 0..3 {
            let before = taken.len();
            tokio::task::yield_now().await;
            while taken.len() < MAX_ROWS
                && let Ok(pending) = waiting.try_recv()
            {
                taken.push(pending);
            }
            if taken.len() == before {
                break;
            }
        }
        backlog.set_aside(&mut taken);
        for mut turn in [std::mem::take(&mut taken), backlog.turn()] {
            if turn.is_empty() {
                continue;
            }
            let mut connection = lane.connection.lock().await;
            lane.queued.fetch_sub(turn.len(), Ordering::AcqRel);
            for batch in batch::split(turn.drain(..)) {
                flush::flush(&mut **connection, batch, &lane.health).await;
            }
            taken = turn;
        }
    }
}

#[cfg(test)]
mod tests;

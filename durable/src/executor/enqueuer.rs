//! The enqueuer: group commit of workflows that are recorded for whoever claims them.
//!
//! Needs no lease, so that a client which runs nothing has one too. What waits is recorded together, in the order it
//! came, unless a batch is held up: then the next goes ahead. No timer waits for more. What is asked in one call is
//! recorded in one commit or not at all. Layer: executor.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::model::{EnqueueRow, Submitted};
use crate::store::{Result, Store, StoreError, StoreErrorKind, in_time};

/// Rows and bytes that calls are gathered up to; one call alone may have more.
const MAX_ROWS: usize = 1_000;
const MAX_BYTES: usize = 8 << 20;

/// A batch that takes longer waits for somebody's open transaction, and others don't wait for it; not so many that they
/// take the pool's connections from the rest.
const HELD_UP: Duration = Duration::from_millis(100);
const IN_FLIGHT: usize = 2;

/// What one call asked for.
struct Call {
    rows: Vec<EnqueueRow>,
    give_up_at: Instant,
    reply: oneshot::Sender<Result<Vec<Submitted>>>,
}

/// Takes calls, and records what waits together.
pub(super) struct Enqueuer(mpsc::UnboundedSender<Call>);

impl Enqueuer {
    /// On the current tokio runtime, until it is dropped.
    pub(super) fn start(store: Arc<dyn Store>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(run(store, receiver));
        Self(sender)
    }

    /// Records rows in one commit.
    pub(super) async fn submit(&self, rows: Vec<EnqueueRow>, give_up_at: Instant) -> Result<Vec<Submitted>> {
        let ended = || StoreError::new(StoreErrorKind::Unavailable, "the runtime has ended");
        let (reply, answer) = oneshot::channel();
        self.0.send(Call { rows, give_up_at, reply }).map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

async fn run(store: Arc<dyn Store>, mut waiting: mpsc::UnboundedReceiver<Call>) {
    let mut taken = Vec::new();
    let slots = Arc::new(Semaphore::new(IN_FLIGHT));
    while waiting.recv_many(&mut taken, MAX_ROWS).await > 0 {
        for _ in 0..3 {
            let before = taken.len();
            tokio::task::yield_now().await;
            while taken.len() < MAX_ROWS
                && let Ok(call) = waiting.try_recv()
            {
                taken.push(call);
            }
            if taken.len() == before {
                break;
            }
        }
        for calls in together(taken.drain(..)) {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            let store = Arc::clone(&store);
            let recording = tokio::spawn(async move {
                record(&*store, calls).await;
                drop(slot);
            });
            // One after the other, so that batches grow.
            let _ = tokio::time::timeout(HELD_UP, recording).await;
        }
    }
}

/// Calls that share a commit. One with prerequisites has its own: it may be refused for one that does not exist.
fn together(calls: impl Iterator<Item = Call>) -> Vec<Vec<Call>> {
    let mut batches: Vec<Vec<Call>> = Vec::new();
    let (mut rows, mut bytes, mut apart) = (0, 0, true);
    for call in calls {
        let linked = call.rows.iter().any(|row| !row.after.is_empty());
        let weight: usize = call.rows.iter().map(|row| row.input.size() + 256).sum();
        if apart || linked || rows + call.rows.len() > MAX_ROWS || bytes + weight > MAX_BYTES {
            batches.push(Vec::new());
            (rows, bytes) = (0, 0);
        }
        apart = linked;
        rows += call.rows.len();
        bytes += weight;
        if let Some(batch) = batches.last_mut() {
            batch.push(call);
        }
    }
    batches
}

/// Records a batch, or its calls one by one if the database refuses something in it.
async fn record(store: &dyn Store, calls: Vec<Call>) {
    let (mut rows, mut waiters, mut give_up_at) = (Vec::new(), Vec::new(), Instant::now());
    for call in calls {
        waiters.push((call.rows.len(), call.reply));
        rows.extend(call.rows);
        give_up_at = give_up_at.max(call.give_up_at);
    }
    let mut answers = match persist(store, &rows, give_up_at).await {
        Ok(answers) => answers.into_iter(),
        Err(error) if waiters.len() > 1 && !error.is_unanswered() => {
            let mut rest = rows.as_slice();
            for (count, reply) in waiters {
                let (own, others) = rest.split_at(count);
                rest = others;
                let _ = reply.send(persist(store, own, give_up_at).await);
            }
            return;
        }
        Err(error) => {
            for (_, reply) in waiters {
                let _ = reply.send(Err(error.again()));
            }
            return;
        }
    };
    for (count, reply) in waiters {
        let _ = reply.send(Ok(answers.by_ref().take(count).collect()));
    }
}

/// Repeats the same rows until there is an answer: their write ids tell what an earlier try has done.
async fn persist(store: &dyn Store, rows: &[EnqueueRow], give_up_at: Instant) -> Result<Vec<Submitted>> {
    let mut pause = Duration::from_millis(5);
    loop {
        match in_time(store.submit(rows)).await {
            Err(error) if error.is_unanswered() && Instant::now() < give_up_at => {
                tracing::debug!(%error, rows = rows.len(), "an enqueue is repeated");
                tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            answer => return answer,
        }
    }
}

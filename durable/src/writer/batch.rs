//! Batches: which operations ride in one statement. Layer: writer.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{OnFence, Pending, Verdict};
use crate::model::Op;

/// Rows in a batch.
pub(crate) const MAX_ROWS: usize = 1_000;

/// Bytes in a batch; a single larger operation rides alone.
const MAX_BYTES: usize = 8 << 20;

/// Operations and who waits for them, in the same order.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) ops: Vec<Op>,
    waiters: Vec<Waiter>,
}

struct Waiter {
    reply: oneshot::Sender<Verdict>,
    on_fence: Option<Arc<dyn OnFence>>,
    give_up_at: Option<Instant>,
}

impl Batch {
    pub(super) fn of(pending: Pending) -> Self {
        let mut batch = Self::default();
        batch.push(pending);
        batch
    }

    pub(super) fn push(&mut self, pending: Pending) {
        self.ops.push(pending.op);
        let Pending { on_fence, reply, give_up_at, .. } = pending;
        self.waiters.push(Waiter { reply, on_fence, give_up_at });
    }

    /// Answers everybody with [`Verdict::Written`].
    pub(super) fn written(self) {
        for waiter in self.waiters {
            // Nobody waits any more: the row stands all the same.
            let _ = waiter.reply.send(Verdict::Written);
        }
    }

    /// Answers those with a verdict and keeps the others.
    pub(super) fn settle(self, mut verdicts: impl FnMut(usize, &Op, Option<Instant>) -> Option<Verdict>) -> Self {
        let mut left = Self::default();
        for (n, (op, waiter)) in self.ops.into_iter().zip(self.waiters).enumerate() {
            match verdicts(n, &op, waiter.give_up_at) {
                Some(verdict) => {
                    if let (Verdict::Fenced(state), Some(on_fence)) = (&verdict, &waiter.on_fence) {
                        on_fence.fenced(state.as_deref());
                    }
                    let _ = waiter.reply.send(verdict);
                }
                None => {
                    left.ops.push(op);
                    left.waiters.push(waiter);
                }
            }
        }
        left
    }

    /// One batch for each operation.
    pub(super) fn singles(self) -> impl Iterator<Item = Self> {
        self.ops.into_iter().zip(self.waiters).map(|(op, waiter)| Self { ops: vec![op], waiters: vec![waiter] })
    }
}

/// Cuts what waits into batches by bytes. One statement changes a row at most once: a second note on one step
/// attempt, or a second start of one id, opens the next batch.
pub(super) fn split(pending: impl Iterator<Item = Pending>) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut batch = Batch::default();
    let mut bytes = 0;
    let mut once = HashSet::new();
    for pending in pending {
        let weight = pending.op.weight();
        let row = match &pending.op {
            Op::Attempt(op) => Some((Arc::clone(&op.workflow_id), Some((op.key.clone(), op.attempt)))),
            Op::Start(op) => Some((Arc::clone(&op.workflow_id), None)),
            Op::Step(_) | Op::Settle(_) => None,
        };
        let repeated = row.is_some_and(|row| !once.insert(row));
        if !batch.ops.is_empty() && (repeated || bytes + weight > MAX_BYTES) {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
            once.clear();
        }
        bytes += weight;
        batch.push(pending);
    }
    if !batch.ops.is_empty() {
        batches.push(batch);
    }
    batches
}

//! One flush: send, count, and give every operation its verdict.
//!
//! Guarantees that an operation is answered `Written` only when its row is committed and its own, that one refused
//! row does not fail its neighbours, and that a lost reply is told from a lost lease. Written once for both
//! databases. Layer: writer.

use std::time::Duration;

use tokio::time::Instant;

use super::batch::Batch;
use super::{Health, Verdict};
use crate::crash::crash_point;
use crate::model::{Op, WorkflowStatus};
use crate::store::write::{Inspected, Renewal, Tally, WriterConnection};
use crate::store::{Result, StoreErrorKind, in_time};

/// Waits between tries while the database is away or refuses.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Writes a batch, however long the database is away; only an abandoned executor gives up.
pub(super) async fn flush(connection: &mut dyn WriterConnection, mut batch: Batch, health: &Health) {
    let mut tolerate = false;
    let mut pause = FIRST_PAUSE;
    let mut failures = 0_u32;
    while !batch.ops.is_empty() && !health.is_abandoned() {
        crash_point("before-send");
        let error = match in_time(connection.send(&batch.ops, tolerate)).await {
            Ok(tally) => {
                health.note(None);
                crash_point("after-send");
                if tally == Tally::of(&batch.ops) {
                    batch.written();
                    crash_point("after-acknowledge");
                    return;
                }
                match judge(connection, batch, health).await {
                    (left, Ok(())) => {
                        batch = left;
                        tokio::task::yield_now().await;
                        continue;
                    }
                    (left, Err(error)) => {
                        batch = left;
                        error
                    }
                }
            }
            Err(error) => error,
        };
        match error.kind {
            StoreErrorKind::Conflict if !tolerate => {
                tolerate = true;
                continue;
            }
            StoreErrorKind::Data if batch.ops.len() == 1 => {
                let mut refused = Some(error);
                batch.settle(|_, _, _| refused.take().map(Verdict::Refused));
                return;
            }
            StoreErrorKind::Data => {
                // Same rows, same write ids: the good ones go in, the bad one is found.
                for single in batch.singles() {
                    Box::pin(flush(connection, single, health)).await;
                }
                return;
            }
            _ => {}
        }
        failures += 1;
        if error.kind != StoreErrorKind::Retry {
            health.note(Some(&error));
        }
        if error.kind != StoreErrorKind::Retry && health.may_log() {
            tracing::warn!(error = %Chain(&error), rows = batch.ops.len(), failures, "records wait for the database");
        }
        // A start that certainly wrote nothing is answered at once, one whose fate is unknown after its time.
        let certain = !error.is_unanswered();
        let now = Instant::now();
        batch = batch.settle(|_, op, give_up_at| {
            let over = matches!(op, Op::Start(_)) && (certain || give_up_at.is_some_and(|at| at <= now));
            over.then(|| Verdict::Refused(error.again()))
        });
        if error.wants_reconnect() || !error.is_passing() {
            connection.reset().await;
        }
        if error.kind != StoreErrorKind::Retry || failures > 5 {
            health.pause(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Asks the database about each operation after a count that does not add up. Gives back what has to be sent again.
async fn judge(connection: &mut dyn WriterConnection, batch: Batch, health: &Health) -> (Batch, Result<()>) {
    let renewal = match in_time(connection.renew()).await {
        Ok(renewal) => renewal,
        Err(error) => return (batch, Err(error)),
    };
    let found = match in_time(connection.inspect(&batch.ops)).await {
        Ok(found) => found,
        Err(error) => return (batch, Err(error)),
    };
    if renewal == Renewal::Lost {
        health.lose();
    }
    let mut found = found.into_iter();
    let left = batch.settle(|_, op, _| {
        let found = found.next().unwrap_or_default();
        verdict(op, found, renewal)
    });
    (left, Ok(()))
}

/// `None` if the operation has to be sent again: an interrupted statement wrote nothing.
fn verdict(op: &Op, found: Inspected, renewal: Renewal) -> Option<Verdict> {
    let Inspected { workflow, step } = found;
    let owned = renewal != Renewal::Lost;
    let fenced = |workflow| Some(Verdict::Fenced(workflow));
    // The row is still ours to write if status and epoch say so.
    let ours = |epoch: i32| {
        owned && workflow.as_ref().is_some_and(|row| row.epoch == epoch && row.status == WorkflowStatus::Running)
    };
    let cancelled_under =
        |epoch: i32| workflow.as_ref().is_some_and(|row| row.epoch == epoch && row.status == WorkflowStatus::Cancelled);
    match op {
        Op::Start(op) => match workflow {
            Some(row) if row.write_id == op.write_id => Some(Verdict::Written),
            Some(_) => Some(Verdict::Exists),
            // Nobody was in the way, and it was not written: its queue is not for whoever comes.
            None if renewal == Renewal::Held && op.run_here => Some(Verdict::Limited),
            None if owned => None,
            None => fenced(None),
        },
        Op::Step(op) => match step {
            Some(row) if row.write_id == op.write_id => Some(Verdict::Written),
            Some(row) => Some(Verdict::Taken(Box::new(row))),
            None if ours(op.epoch) => None,
            // Cancelled with its body in flight: the statement that compares the times was interrupted before it did.
            None if renewal == Renewal::Interrupted && cancelled_under(op.epoch) => None,
            None => fenced(workflow.map(Box::new)),
        },
        Op::Settle(op) => match workflow {
            Some(row) if row.write_id == op.write_id => Some(Verdict::Written),
            _ if ours(op.epoch) => None,
            row => fenced(row.map(Box::new)),
        },
        Op::Attempt(op) if ours(op.epoch) => None,
        Op::Attempt(_) => fenced(workflow.map(Box::new)),
    }
}

/// An error with its sources on one line.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn std::error::Error + 'static));

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            // The driver's errors repeat their sources.
            let text = error.to_string();
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said = text;
            }
            source = error.source();
        }
        Ok(())
    }
}

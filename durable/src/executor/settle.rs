//! The end of a run: recorded, or tried again. Layer: executor.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::driver::End;
use super::endings::Ending;
use super::engine::{Engine, Run};
use crate::codec::{Codec, ErrorEncoding, Outcome};
use crate::error::{Failure, FailureKind};
use crate::model::{Op, SettleOp, WorkflowStatus};
use crate::registry::WorkflowEntry;
use crate::store::in_time;
use crate::store::workflow::{Retry, RetryAnswer};
use crate::workflow::{Context, StopReason};
use crate::writer::{Chain, Pending, Verdict};

/// The longest pause between attempts: a thousand years. What is longer may be behind the last moment that a database can tell.
const LONGEST_PAUSE: Duration = Duration::from_secs(1_000 * 366 * 86_400);

fn quiet(status: WorkflowStatus) -> Ending {
    Ending { status, outcome: None }
}

/// When and why a run that failed is tried again: the attempts that have failed, and the error in words.
pub(super) fn again(entry: &WorkflowEntry, attempt: i32, end: &End) -> Option<(Duration, String)> {
    let failed = u32::try_from(attempt).unwrap_or(1).max(1);
    if failed >= entry.retry.max_attempts {
        return None;
    }
    let why = match end {
        End::Stopped(StopReason::Failed(failure)) | End::Returned(Err(failure)) if !failure.is_permanent() => {
            failure.chain()
        }
        End::Returned(Ok(outcome @ Outcome::Error { message, .. })) if !is_permanent(outcome) => message.clone(),
        _ => return None,
    };
    Some((entry.retry.delay(failed).min(LONGEST_PAUSE), why))
}

/// Lets the next workflow attempt follow, if it is ours to end this one.
pub(super) async fn retry(engine: &Arc<Engine>, run: &Arc<Run>, delay: Duration, why: &str) -> Ending {
    let context = &run.context;
    let why = storable(why);
    let retry = Retry {
        workflow_id: &context.workflow_id,
        epoch: context.epoch,
        delay: i64::try_from(delay.as_micros()).unwrap_or(i64::MAX),
        error_message: &why,
        write_id: fastrand::i64(..),
    };
    let mut pause = Duration::from_millis(20);
    loop {
        match in_time(engine.store.retry(&run.identity.claim_lease, &retry)).await {
            Ok(RetryAnswer::Waiting) => {
                engine.hub.wake_in(delay);
                return quiet(WorkflowStatus::Waiting);
            }
            Ok(RetryAnswer::Fenced(Some(row)))
                if row.status == WorkflowStatus::Cancelled && row.epoch == context.epoch =>
            {
                return quiet(WorkflowStatus::Cancelled);
            }
            Ok(RetryAnswer::Fenced(_)) => return quiet(WorkflowStatus::Running),
            Err(_) if run.identity.health.is_lost() => return quiet(WorkflowStatus::Running),
            // Given back, it ends once more elsewhere: its steps are recorded.
            Err(_) if engine.is_closing() => return quiet(WorkflowStatus::Pending),
            Err(error) => {
                tracing::warn!(
                    workflow_id = &*context.workflow_id,
                    error = %Chain(&error),
                    "the end of a workflow attempt waits for the database"
                );
                tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        }
    }
}

/// Records the end, if it is ours to record.
pub(super) async fn settle(engine: &Arc<Engine>, run: &Arc<Run>, end: End, retries: bool) -> Ending {
    let context = &run.context;
    let mut op = match end {
        End::Stopped(StopReason::Cancelled) => return quiet(WorkflowStatus::Cancelled),
        End::Stopped(StopReason::Shutdown) => return quiet(WorkflowStatus::Pending),
        End::Stopped(StopReason::Fenced) => return quiet(WorkflowStatus::Running),
        End::Stopped(StopReason::Blocked(why)) => {
            tracing::error!(workflow_id = &*context.workflow_id, name = context.name, why, "workflow is blocked");
            settle_op(context, WorkflowStatus::Blocked, None, Some(why))
        }
        End::Stopped(StopReason::Failed(failure)) | End::Returned(Err(failure)) => failed(context, &failure, retries),
        End::Returned(Ok(outcome @ Outcome::Done(_))) => settle_op(context, WorkflowStatus::Done, Some(outcome), None),
        End::Returned(Ok(outcome)) => {
            let message = match &outcome {
                Outcome::Error { message, .. } => Some(message.clone()),
                Outcome::Done(_) => None,
            };
            let status = out_of_attempts(retries && !is_permanent(&outcome));
            settle_op(context, status, Some(outcome), message)
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
                op = failed(context, &failure.with_kind(FailureKind::Payload), retries);
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

/// True if the workflow's own error says that no other attempt can help.
fn is_permanent(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Error { payload, encoding: ErrorEncoding::Failure, .. } => {
            payload.decode::<Failure>().is_ok_and(|failure| failure.is_permanent())
        }
        _ => false,
    }
}

/// One that had several attempts is a dead letter, unless more of them could not have helped.
fn out_of_attempts(retries: bool) -> WorkflowStatus {
    if retries { WorkflowStatus::Dead } else { WorkflowStatus::Failed }
}

fn failed(context: &Context, failure: &Failure, retries: bool) -> SettleOp {
    settle_op(
        context,
        out_of_attempts(retries && !failure.is_permanent()),
        Some(Outcome::failure(failure)),
        Some(failure.chain()),
    )
}

fn settle_op(context: &Context, status: WorkflowStatus, result: Option<Outcome>, message: Option<String>) -> SettleOp {
    debug_assert!(result.as_ref().is_none_or(|outcome| Codec::from_id(outcome.payload().codec).is_some()));
    SettleOp {
        workflow_id: Arc::clone(&context.workflow_id),
        epoch: context.epoch,
        status,
        reason: match status {
            WorkflowStatus::Blocked => Some("blocked".to_owned()),
            WorkflowStatus::Dead => Some("attempts".to_owned()),
            _ => None,
        },
        error_message: message.map(|message| storable(&message)),
        result,
        write_id: fastrand::i64(..),
    }
}

/// Text that Postgres takes.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

//! What the stores read back. Layer: model.

use std::sync::Arc;

use super::{Micros, WorkflowStatus};
use crate::codec::{Outcome, Payload};
use crate::ids::follows;

/// A workflow row, without payloads.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowState {
    pub(crate) name: String,
    pub(crate) status: WorkflowStatus,
    pub(crate) reason: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) epoch: i32,
    pub(crate) write_id: i64,
}

/// What a claim hands to the driver.
#[derive(Clone, Debug)]
pub(crate) struct ClaimedWorkflow {
    pub(crate) workflow_id: Arc<str>,
    pub(crate) name: String,
    pub(crate) version: i32,
    pub(crate) epoch: i32,
    pub(crate) seed: i64,
    /// The workflow attempt, from 1.
    pub(crate) attempt: i32,
    /// An error text where the row is gone or can't be read, so that it blocks this workflow and not the claim.
    pub(crate) input: Result<StoredInput, String>,
}

/// A stored input.
#[derive(Clone, Debug)]
pub(crate) struct StoredInput {
    pub(crate) payload: Payload,
}

/// A checkpoint. The outcome is an error text where the row can't be understood, so that one damaged row blocks
/// one workflow and not the page it was read with.
#[derive(Clone, Debug)]
pub(crate) struct StepRecord {
    pub(crate) branch: Arc<str>,
    pub(crate) step_index: i32,
    pub(crate) seq: i64,
    pub(crate) kind: String,
    pub(crate) step_name: String,
    pub(crate) outcome: Result<Outcome, String>,
    pub(crate) args_hash: Option<i64>,
    pub(crate) call_site: String,
    pub(crate) definition_site: String,
    pub(crate) write_id: i64,
}

/// What was recorded of a step that has no outcome yet.
#[derive(Clone, Debug)]
pub(crate) struct AttemptRecord {
    pub(crate) branch: Arc<str>,
    pub(crate) step_index: i32,
    pub(crate) attempt: i32,
    pub(crate) status: String,
    pub(crate) next_attempt_at: Option<Micros>,
}

/// The history of one workflow, ordered by branch and index.
#[derive(Clone, Debug, Default)]
pub(crate) struct HistoryRows {
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) attempts: Vec<AttemptRecord>,
}

/// The position and status of one checkpoint, for the decision what a new workflow attempt sets aside.
#[derive(Clone, Debug)]
pub(crate) struct ResumeKeys {
    pub(crate) branch: String,
    pub(crate) step_index: i32,
    pub(crate) is_error: bool,
}

/// The error outcomes that nothing followed: a new workflow attempt runs these steps again. An error that the
/// code handled and went on from stays, else the path would change under the rows after it.
pub(crate) fn set_aside(rows: &[ResumeKeys]) -> Vec<&ResumeKeys> {
    rows.iter()
        .filter(|error| error.is_error)
        .filter(|error| {
            !rows.iter().any(|row| follows((&row.branch, row.step_index), (&error.branch, error.step_index)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(branch: &str, step_index: i32, is_error: bool) -> ResumeKeys {
        ResumeKeys { branch: branch.into(), step_index, is_error }
    }

    #[test]
    fn only_errors_that_nothing_followed_are_set_aside() {
        let rows = [
            row("", 0, true), // handled: the body went on
            row("", 1, false),
            row("2.0", 0, true), // the arm failed, and with it the workflow
            row("2.1", 0, true), // handled inside its arm
            row("2.1", 1, false),
        ];
        let aside: Vec<_> = set_aside(&rows).into_iter().map(|r| (r.branch.as_str(), r.step_index)).collect();
        assert_eq!(aside, [("2.0", 0)]);
    }

    #[test]
    fn an_arm_error_that_the_body_went_on_from_stays() {
        let rows = [row("0.0", 0, true), row("", 1, false)];
        assert!(set_aside(&rows).is_empty());
    }
}

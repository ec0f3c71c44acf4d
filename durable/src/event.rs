//! Events: what a program can watch. Layer: below the workflow.

use std::time::Duration;

use crate::model::WorkflowStatus;

/// Something that happened, told to the hook of `Builder::on_event` after its commit, from an engine task. The hook
/// must not block. What happened just before a crash may not be told.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A workflow begins to run here: freshly, or again from its history.
    Started {
        /// Its id.
        workflow_id: &'a str,
        /// Its name.
        name: &'a str,
        /// True if it ran before, here or elsewhere.
        recovered: bool,
        /// Outcomes in its history.
        recorded_steps: usize,
    },
    /// The outcome of a durable call is committed.
    Checkpoint {
        /// The workflow's id.
        workflow_id: &'a str,
        /// The branch; empty for the body.
        branch: &'a str,
        /// The index in the branch, from 0.
        step_index: i32,
        /// The step's name.
        step_name: &'a str,
        /// True if the outcome is an error.
        is_error: bool,
    },
    /// A durable call got its recorded outcome; its body did not run.
    Replayed {
        /// The workflow's id.
        workflow_id: &'a str,
        /// The branch; empty for the body.
        branch: &'a str,
        /// The index in the branch, from 0.
        step_index: i32,
        /// The step's name.
        step_name: &'a str,
    },
    /// A step attempt failed, that is recorded, and the next follows.
    Retry {
        /// The workflow's id.
        workflow_id: &'a str,
        /// The step's name.
        step_name: &'a str,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// Its error in words.
        error: &'a str,
        /// The wait until the next.
        next_attempt_in: Duration,
    },
    /// A workflow has ended, is blocked, or stopped running here.
    Ended {
        /// Its id.
        workflow_id: &'a str,
        /// Its name.
        name: &'a str,
        /// The recorded status; `Running` if another executor owns it now, `Pending` if it was released.
        status: WorkflowStatus,
    },
}

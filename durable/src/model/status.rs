//! The life of a workflow: `pending → running → waiting → pending`, ending in `done | failed | cancelled | dead`,
//! and `blocked`, which a person or a deploy must act on. Layer: model.

use std::fmt;

/// Where a workflow is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkflowStatus {
    /// Recorded, and waiting for an executor that has room and knows its name and version.
    Pending,
    /// An executor runs it.
    Running,
    /// It needs time or a message, and holds no memory.
    Waiting,
    /// It returned a value. Never changes.
    Done,
    /// It returned an error or panicked. [`resume`](crate::WorkflowHandle::resume) tries again.
    Failed,
    /// Somebody cancelled it, or its deadline passed.
    Cancelled,
    /// Its attempts or recoveries are used up.
    Dead,
    /// It diverged or can't be decoded: it goes on by [`resume`](crate::WorkflowHandle::resume) after a fix.
    Blocked,
}

impl WorkflowStatus {
    /// The word in the column `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
            Self::Blocked => "blocked",
        }
    }

    /// The status of a stored word, if it is one.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "pending" => Self::Pending,
            "running" => Self::Running,
            "waiting" => Self::Waiting,
            "done" => Self::Done,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            "dead" => Self::Dead,
            "blocked" => Self::Blocked,
            _ => return None,
        })
    }

    /// True for `done`, `failed`, `cancelled` and `dead`: nothing runs any more. `blocked` has not ended.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled | Self::Dead)
    }

    /// True if nothing more happens without somebody's act: the ended ones and `blocked`.
    pub(crate) fn is_settled(self) -> bool {
        self.has_ended() || self == Self::Blocked
    }
}

impl fmt::Display for WorkflowStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

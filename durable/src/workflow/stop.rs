//! Stops: how a workflow is told to end, and who listens. Layer: workflow.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use crate::error::Failure;

/// Why a workflow's body is not to go on.
#[derive(Clone, Debug)]
pub(crate) enum StopReason {
    /// Somebody cancelled it: running step bodies are told, and have the grace to end.
    Cancelled,
    /// The process shuts down: the same, and the workflow goes on elsewhere.
    Shutdown,
    /// Another executor owns it: dropped at once, nothing more is written.
    Fenced,
    /// It diverged or can't be decoded.
    Blocked(String),
    /// A finished call has no value that its type can express.
    Failed(Failure),
}

impl StopReason {
    fn rank(&self) -> u8 {
        match self {
            Self::Shutdown => 1,
            Self::Cancelled => 2,
            Self::Failed(_) => 3,
            Self::Blocked(_) => 4,
            Self::Fenced => 5,
        }
    }
}

/// The stop of one workflow: set once or raised to something stronger, looked at before every poll.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    rank: AtomicU8,
    reason: Mutex<Option<StopReason>>,
    driver: AtomicWaker,
    told: Notify,
}

impl Stop {
    /// Asks for a stop. A weaker reason does not replace a stronger one.
    pub(crate) fn request(&self, reason: StopReason) {
        {
            let mut held = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
            if held.as_ref().is_some_and(|held| held.rank() >= reason.rank()) {
                return;
            }
            self.rank.store(reason.rank(), Ordering::SeqCst);
            *held = Some(reason);
        }
        self.told.notify_waiters();
        self.driver.wake();
    }

    /// True if the body is not to go on: a durable call stays pending from here on.
    pub(crate) fn is_requested(&self) -> bool {
        self.rank.load(Ordering::Acquire) != 0
    }

    /// The reason, if there is one.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        if !self.is_requested() {
            return None;
        }
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who is woken by a stop.
    pub(crate) fn register(&self, waker: &Waker) {
        self.driver.register(waker);
    }

    /// Resolves when a stop is requested.
    pub(crate) async fn requested(&self) {
        loop {
            let told = self.told.notified();
            if self.is_requested() {
                return;
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stronger_stop_replaces_a_weaker_one_and_not_the_reverse() {
        let stop = Stop::default();
        stop.request(StopReason::Shutdown);
        stop.request(StopReason::Fenced);
        stop.request(StopReason::Cancelled);
        assert!(matches!(stop.reason(), Some(StopReason::Fenced)));
    }
}

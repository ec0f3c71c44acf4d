//! Who waits in this process for a workflow to end. Layer: executor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::codec::Outcome;
use crate::model::WorkflowStatus;

/// How a workflow ended, as far as this process knows without asking.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) status: WorkflowStatus,
    pub(crate) outcome: Option<Outcome>,
}

/// Waiters by workflow id.
#[derive(Default)]
pub(crate) struct Endings {
    waiters: Mutex<Waiters>,
    joined: Notify,
}

type Waiters = HashMap<Arc<str>, Vec<oneshot::Sender<Ending>>>;

impl Endings {
    /// Waits for the end of a workflow, if it is told in this process.
    pub(crate) fn wait(&self, id: &Arc<str>) -> oneshot::Receiver<Ending> {
        let (sender, receiver) = oneshot::channel();
        let mut waiters = self.lock();
        let list = waiters.entry(Arc::clone(id)).or_default();
        // Waiters that gave up leave with the next that comes.
        list.retain(|waiter| !waiter.is_closed());
        list.push(sender);
        drop(waiters);
        self.joined.notify_one();
        receiver
    }

    /// Resolves when somebody began to wait since the last time.
    pub(super) async fn joined(&self) {
        self.joined.notified().await;
    }

    /// The ids that somebody waits for.
    pub(super) fn ids(&self) -> Vec<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    /// Forgets an id that nobody waits for any more.
    pub(crate) fn tidy(&self, id: &str) {
        let mut waiters = self.lock();
        if let Some(list) = waiters.get_mut(id) {
            list.retain(|waiter| !waiter.is_closed());
            if list.is_empty() {
                waiters.remove(id);
            }
        }
    }

    /// Tells everybody who waits.
    pub(crate) fn tell(&self, id: &str, ending: &Ending) {
        for waiter in self.lock().remove(id).unwrap_or_default() {
            let _ = waiter.send(ending.clone());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

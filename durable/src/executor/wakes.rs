//! Wake-ups to other processes: what is said within a few milliseconds is said once, behind the commits it is about.
//! Layer: executor.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::store::{Store, in_time};

/// The first is told at once; what follows within this time is told together.
const TOGETHER: Duration = Duration::from_millis(5);

/// Tells the executors of other processes where to look.
pub(super) struct Wakes(mpsc::UnboundedSender<Box<str>>);

impl Wakes {
    /// On the current tokio runtime, until it is dropped.
    pub(super) fn start(store: Arc<dyn Store>) -> Self {
        let (sender, mut receiver) = mpsc::unbounded_channel::<Box<str>>();
        tokio::spawn(async move {
            while let Some(first) = receiver.recv().await {
                let mut queues = BTreeSet::from([String::from(first)]);
                while let Ok(more) = receiver.try_recv() {
                    queues.insert(more.into());
                }
                let queues: Vec<String> = queues.into_iter().collect();
                // A hint: whoever misses it looks with its next heartbeat.
                if let Err(error) = in_time(store.wake(&queues)).await {
                    tracing::debug!(%error, "executors elsewhere are not told of new work");
                }
                tokio::time::sleep(TOGETHER).await;
            }
        });
        Self(sender)
    }

    /// Something is pending in this queue; with an empty name, something falls due soon.
    pub(super) fn tell(&self, queue: &str) {
        // The task ends with the tokio runtime, and then there is nobody to tell.
        let _ = self.0.send(queue.into());
    }
}

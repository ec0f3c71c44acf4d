//! The watch: looks for the ends that nobody in this process tells, once for all who wait.
//!
//! Guarantees one question for each `poll` however many handles wait, and sooner ones after somebody began to. Layer:
//! executor.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::endings::{Ending, Endings};
use super::hub::Hub;
use crate::model::WorkflowStatus;
use crate::store::in_time;

/// The first look after somebody began to wait.
const SOON: Duration = Duration::from_millis(20);

/// Ids that one question has.
const PAGE: usize = 1_000;

/// Until the hub is closed or gone.
pub(super) async fn watch(hub: Weak<Hub>, endings: Arc<Endings>, poll: Duration) {
    let mut pause = poll;
    loop {
        let began = tokio::time::timeout(pause.mul_f64(0.75 + fastrand::f64() / 2.0), endings.joined()).await.is_ok();
        pause = (pause * 2).min(poll);
        if began {
            pause = SOON.min(poll);
            tokio::time::sleep(pause).await;
        }
        let Some(hub) = hub.upgrade() else { return };
        if hub.is_closing() {
            return;
        }
        hub.look_for_ends().await;
    }
}

impl Hub {
    async fn look_for_ends(&self) {
        // Where it runs here its end is told.
        let ids: Vec<Arc<str>> = self.endings.ids().into_iter().filter(|id| !self.runs_here(id)).collect();
        for page in ids.chunks(PAGE) {
            match in_time(self.store.unsettled(page)).await {
                Ok(unsettled) => {
                    for id in page.iter().filter(|id| !unsettled.contains(&***id)) {
                        // Whoever waits reads the row, which may also be gone.
                        self.endings.tell(id, &Ending { status: WorkflowStatus::Done, outcome: None });
                    }
                }
                Err(error) => tracing::debug!(%error, "ends of workflows can't be looked for"),
            }
        }
    }
}

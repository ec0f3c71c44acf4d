//! What the workflows themselves tell: how many step bodies ran, and when workflows came to their end.
//!
//! A workflow's last line is the same moment for every library; the record of its end, which follows, is not in the
//! times of the works `replay` and `queue`.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use anyhow::Context;
use tokio::sync::watch;

static BODIES: AtomicU32 = AtomicU32::new(0);
static HOLD: AtomicBool = AtomicBool::new(false);
static COUNTED: AtomicBool = AtomicBool::new(false);
static ENDS: LazyLock<watch::Sender<Ends>> = LazyLock::new(|| watch::Sender::new(Ends::default()));

#[derive(Clone, Copy, Default)]
struct Ends {
    count: u32,
    last: Option<Instant>,
}

/// The body of a no-op step.
pub fn body() {
    BODIES.fetch_add(1, Ordering::Relaxed);
}

/// The last line of a workflow. Never returns while workflows are to be interrupted here.
pub async fn end() {
    if COUNTED.load(Ordering::Relaxed) {
        // Before it is told: whoever hears of it lets the next ones pass.
        let hold = HOLD.load(Ordering::Relaxed);
        ENDS.send_modify(|ends| *ends = Ends { count: ends.count + 1, last: Some(Instant::now()) });
        if hold {
            std::future::pending().await
        }
    }
}

/// Step bodies that ran since the start.
pub(crate) fn bodies() -> u32 {
    BODIES.load(Ordering::Relaxed)
}

/// Counts ends from now on; with `hold`, workflows stand still at theirs.
pub(crate) fn count_ends(hold: bool) {
    HOLD.store(hold, Ordering::Relaxed);
    ENDS.send_replace(Ends::default());
    COUNTED.store(true, Ordering::Relaxed);
}

/// Waits until so many ended, and gives the moment of the last.
pub(crate) async fn ends(count: u32) -> anyhow::Result<Instant> {
    let ends = *ENDS.subscribe().wait_for(|ends| ends.count >= count).await?;
    ends.last.context("nothing ended")
}

//! Child processes that are really killed, frozen and cut off: what must hold is asserted by rows and by the lines
//! that step bodies left.
//!
//! Times are scaled down; `DURABLE_TEST_LONG=1` runs them in full (a 20 s outage, 200 random kills for each store).
#![expect(clippy::unwrap_used, clippy::panic, reason = "a case that can't be set up has failed")]

mod batches;
mod example;
mod fleet;
mod frozen;
mod ledger;
mod outage;
mod points;
mod poison;
mod restarts;
mod scene;
mod stale;
mod takeover;

/// True where the long variants are wanted.
fn long() -> bool {
    std::env::var_os("DURABLE_TEST_LONG").is_some_and(|value| value != "0")
}

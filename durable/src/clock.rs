//! The database's time, as well as this machine knows it between two heartbeats.
//!
//! Guarantees never to be behind the database: the estimate counts from before the question was sent. So a step
//! that starts after an acknowledged cancel never looks older than it. Layer: below the stores' users.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use crate::model::Micros;

/// Time since boot: goes on through suspend and SIGSTOP, and never backwards.
pub(crate) fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(target_os = "linux"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

/// An estimate of the database's clock.
#[derive(Debug)]
pub(crate) struct DatabaseClock(Mutex<Reading>);

#[derive(Clone, Copy, Debug)]
struct Reading {
    database: Micros,
    asked_at: Duration,
}

impl DatabaseClock {
    /// From an answer to a question that was sent at `asked_at` since boot.
    pub(crate) fn new(database: Micros, asked_at: Duration) -> Self {
        Self(Mutex::new(Reading { database, asked_at }))
    }

    /// A newer answer.
    pub(crate) fn set(&self, database: Micros, asked_at: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Reading { database, asked_at };
    }

    /// The estimate.
    pub(crate) fn now(&self) -> Micros {
        let reading = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = since_boot().saturating_sub(reading.asked_at);
        reading.database.saturating_add(i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_never_behind_the_answer() {
        let clock = DatabaseClock::new(1_000_000, since_boot());
        assert!(clock.now() >= 1_000_000);
    }
}

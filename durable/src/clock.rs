//! The database's time, as well as this machine knows it between two heartbeats.
//!
//! Guarantees never to be behind the database: the estimate counts from before the question was sent, and the answer
//! that came fastest counts longest. So a step that starts after an acknowledged cancel never looks older than it, and
//! one that started before looks younger by a fast round trip at most. Layer: below the stores' users.

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

/// What the database said, and between which moments since boot it did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) database: Micros,
    pub(crate) asked_at: Duration,
    pub(crate) answered_at: Duration,
}

/// Clocks run apart by less than one part in this many.
const DRIFT: i64 = 1_000;

impl Reading {
    /// The estimate at a moment since boot.
    fn at(&self, moment: Duration) -> Micros {
        let elapsed = moment.saturating_sub(self.asked_at);
        self.database.saturating_add(micros(elapsed))
    }
}

fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

impl DatabaseClock {
    /// From a first answer.
    pub(crate) fn new(reading: Reading) -> Self {
        Self(Mutex::new(reading))
    }

    /// A newer answer: taken if it came faster, as far as the clocks may have run apart since, or if it shows that
    /// the database's clock was moved forward.
    pub(crate) fn set(&self, newer: Reading) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let drift = micros(newer.asked_at.saturating_sub(held.asked_at)) / DRIFT;
        let behind = held.at(newer.answered_at) < newer.database;
        if behind || newer.at(newer.answered_at) <= held.at(newer.answered_at).saturating_add(drift) {
            *held = newer;
        }
    }

    /// The estimate.
    pub(crate) fn now(&self) -> Micros {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).at(since_boot())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer at a second of this machine whose question took some milliseconds each way.
    fn reading(second: u64, database: Micros, each_way: u64) -> Reading {
        let (moment, way) = (Duration::from_secs(second), Duration::from_millis(each_way));
        Reading { database, asked_at: moment - way, answered_at: moment + way }
    }

    fn at(clock: &DatabaseClock, second: u64) -> Micros {
        clock.0.lock().unwrap().at(Duration::from_secs(second))
    }

    #[test]
    fn the_estimate_is_never_behind_the_answer() {
        let asked_at = since_boot();
        let clock = DatabaseClock::new(Reading { database: 1_000_000, asked_at, answered_at: asked_at });
        assert!(clock.now() >= 1_000_000);
    }

    #[test]
    fn a_slow_answer_does_not_replace_a_fast_one() {
        let clock = DatabaseClock::new(reading(100, 5_000_000, 1));
        clock.set(reading(101, 6_000_000, 400));
        assert_eq!(at(&clock, 101), 6_001_000);
        clock.set(reading(102, 7_000_000, 0));
        assert_eq!(at(&clock, 102), 7_000_000);
    }

    #[test]
    fn a_clock_that_was_moved_is_followed() {
        let clock = DatabaseClock::new(reading(100, 5_000_000, 1));
        clock.set(reading(101, 9_000_000, 400));
        assert_eq!(at(&clock, 101), 9_400_000, "forward: never behind");
        clock.set(reading(102, 2_000_000, 400));
        assert_eq!(at(&clock, 102), 2_400_000, "back");
    }

    #[test]
    fn a_slow_answer_counts_once_the_clocks_may_have_run_apart_as_far() {
        let clock = DatabaseClock::new(reading(100, 5_000_000, 1));
        clock.set(reading(201, 106_000_000, 90));
        assert_eq!(at(&clock, 201), 106_090_000);
    }
}

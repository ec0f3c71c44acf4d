//! Retry policies of steps. Layer: workflow.

use std::time::Duration;

/// How a step is tried again. Attempts, not retries, are counted: 1 means one run and no retry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Runs of the body at most, the first included. At least 1.
    pub max_attempts: u32,
    /// The wait after the first failed attempt.
    pub initial: Duration,
    /// What each further wait is multiplied by. At least 1.
    pub factor: f64,
    /// The longest wait.
    pub max: Duration,
    /// Whether each wait is shortened by a random part of up to a half, so that many don't come back together.
    pub jitter: bool,
}

impl RetryPolicy {
    /// One attempt: what a step has without `retry`.
    pub const NONE: Self =
        Self { max_attempts: 1, initial: Duration::ZERO, factor: 1.0, max: Duration::ZERO, jitter: false };

    /// The wait after `failed` attempts. Saturates at `max`, whatever the numbers; never zero unless `max` is.
    pub(crate) fn delay(&self, failed: u32) -> Duration {
        let exponent = i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.initial.as_secs_f64() * self.factor.max(1.0).powi(exponent);
        let longest = self.max.as_secs_f64();
        // `min` takes the other side of a NaN, and an infinity is capped.
        let seconds = seconds.min(longest) * if self.jitter { 1.0 - fastrand::f64() / 2.0 } else { 1.0 };
        Duration::try_from_secs_f64(seconds).unwrap_or(self.max).max(Duration::from_millis(1)).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_never_overflow() {
        let policy = RetryPolicy {
            max_attempts: 100,
            initial: Duration::from_secs(3600),
            factor: 2.0,
            max: Duration::from_secs(86_400),
            jitter: false,
        };
        assert_eq!(policy.delay(1), Duration::from_secs(3600));
        assert_eq!(policy.delay(2), Duration::from_secs(7200));
        let mut before = Duration::ZERO;
        for failed in 1..=5_000 {
            let delay = policy.delay(failed);
            assert!(delay >= before && delay <= policy.max, "{failed}: {delay:?}");
            before = delay;
        }
        assert_eq!(policy.delay(u32::MAX), policy.max);
    }

    #[test]
    fn jitter_takes_at_most_half() {
        let policy = RetryPolicy {
            jitter: true,
            ..RetryPolicy {
                max_attempts: 3,
                initial: Duration::from_secs(10),
                factor: 1.0,
                max: Duration::from_secs(10),
                jitter: true,
            }
        };
        for _ in 0..1_000 {
            let delay = policy.delay(1);
            assert!(delay >= Duration::from_secs(5) && delay <= Duration::from_secs(10));
        }
    }
}

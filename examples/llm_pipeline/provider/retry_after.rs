//! `Retry-After`: how long a provider asks to be left alone, in seconds or as an HTTP date (RFC 9110, 10.2.3).
//! Layer: below `provider`.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

/// A step that waits for longer holds its workflow for longer than its own back-off would.
const LONGEST: Duration = Duration::from_secs(60);

/// The wait that the answer asks for, a minute at most. `None` if it asks for none, or not in a form known here.
pub(super) fn wait(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    parse(value, SystemTime::now())
}

fn parse(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = if value.is_empty() {
        return None;
    } else if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit is as good as "very long".
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        // A date that has passed, or a clock that is ahead: no wait.
        httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_taken_as_they_are_up_to_a_minute() {
        let parse = |value| parse(value, SystemTime::now());
        assert_eq!(parse("0"), Some(Duration::ZERO));
        assert_eq!(parse(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(parse("3600"), Some(LONGEST));
        assert_eq!(parse("99999999999999999999999"), Some(LONGEST));
    }

    #[test]
    fn a_date_is_the_time_until_then() {
        let then = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let at = |now| parse("Sun, 06 Nov 1994 08:49:37 GMT", now);
        assert_eq!(at(then - Duration::from_secs(20)), Some(Duration::from_secs(20)));
        assert_eq!(at(then - Duration::from_secs(7200)), Some(LONGEST));
        assert_eq!(at(then + Duration::from_secs(5)), Some(Duration::ZERO));
    }

    #[test]
    fn anything_else_asks_for_nothing() {
        for value in ["", "soon", "-5", "1.5", "12 s"] {
            assert_eq!(parse(value, SystemTime::now()), None, "{value:?}");
        }
        assert_eq!(wait(&HeaderMap::new()), None);
    }
}

//! Durations in attributes: a whole number and its unit, as in `"250ms"`.
//!
//! Guarantees that what is accepted fits the library's clock. Does not accept bare numbers: a number without a unit
//! is a guess.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result};

/// The duration a literal says.
pub(crate) fn parse(literal: &LitStr) -> Result<Duration> {
    let text = literal.value();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis_per_unit: Option<u64> = match unit.trim() {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let (Some(factor), false) = (millis_per_unit, number.is_empty()) else {
        return Err(refuse(
            literal,
            "is not a duration: write a whole number and one of the units ms, s, m, h, d, as in \"250ms\" or \"5m\"",
        ));
    };
    // A database keeps times as microseconds in 64 bits.
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|millis| *millis <= i64::MAX as u64 / 1_000)
        .map(Duration::from_millis)
        .ok_or_else(|| refuse(literal, "is too long: at most 292000 years fit"))
}

/// The expression that makes the duration.
pub(crate) fn expr(duration: Duration) -> TokenStream {
    let (secs, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#secs, #nanos))
}

fn refuse(literal: &LitStr, why: &str) -> Error {
    Error::new(literal.span(), format!("`{}` {why}", literal.value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Duration> {
        parse(&LitStr::new(text, proc_macro2::Span::call_site())).ok()
    }

    #[test]
    fn each_unit_means_its_length() {
        assert_eq!(of("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(of("1s"), Some(Duration::from_secs(1)));
        assert_eq!(of("5m"), Some(Duration::from_secs(300)));
        assert_eq!(of("1 h"), Some(Duration::from_secs(3_600)));
        assert_eq!(of("2d"), Some(Duration::from_secs(172_800)));
        assert_eq!(of("0s"), Some(Duration::ZERO));
    }

    #[test]
    fn whatever_else_is_refused() {
        for text in ["", "s", "5", "-1s", "1.5s", "1m30s", "5 minutes", "1S", "99999999999999999999s", "200000000000d"]
        {
            assert_eq!(of(text), None, "{text}");
        }
    }
}

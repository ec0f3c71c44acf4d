//! Settings of the peers, which whoever doubts them can vary without a build.

use std::str::FromStr;

/// The number that the environment variable has, or else the one that is written here and in the README.
pub fn setting<N: FromStr>(variable: &str, default: N) -> N {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

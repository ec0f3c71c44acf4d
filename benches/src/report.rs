//! One line for each work.

use serde::Serialize;

/// What a work came to; absent where it does not apply.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) work: String,
    pub(crate) store: &'static str,
    pub(crate) in_flight: Option<usize>,
    pub(crate) per_s: Option<f64>,
    pub(crate) raw_per_s: Option<f64>,
    pub(crate) ratio: Option<f64>,
    pub(crate) commits_per_step: Option<f64>,
    pub(crate) wal_bytes_per_step: Option<f64>,
    pub(crate) cpu_us_per_step: Option<f64>,
    pub(crate) rss_mib: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

impl Report {
    pub(crate) fn heading() -> String {
        format!(
            "{:<14} {:>9} {:>8} {:>9} {:>5} {:>8} {:>7} {:>7} {:>5} {:>8}",
            "work", "in flight", "per s", "raw per s", "ratio", "commits", "WAL B", "CPU us", "MiB", "p50 ms"
        )
    }

    pub(crate) fn row(&self) -> String {
        let number =
            |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        format!(
            "{:<14} {:>9} {:>8} {:>9} {:>5} {:>8} {:>7} {:>7} {:>5} {:>8}",
            self.work,
            self.in_flight.map_or("-".to_owned(), |n| n.to_string()),
            number(self.per_s, 0),
            number(self.raw_per_s, 0),
            number(self.ratio, 2),
            number(self.commits_per_step, 4),
            number(self.wal_bytes_per_step, 0),
            number(self.cpu_us_per_step, 1),
            number(self.rss_mib, 0),
            number(self.p50_ms, 1),
        )
    }
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

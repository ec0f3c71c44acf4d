//! One line for each work.

use serde::Serialize;

/// What a work came to; absent where it does not apply.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) work: String,
    pub(crate) store: String,
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
    /// For people, under the table.
    #[serde(skip)]
    pub(crate) note: Option<String>,
}

impl Report {
    pub(crate) fn heading() -> String {
        format!(
            "{:<14} {:>9} {:>8} {:>8} {:>5} {:>7} {:>7} {:>6} {:>5} {:>8} {:>8}",
            "work", "in flight", "per s", "raw/s", "ratio", "commits", "WAL B", "CPU us", "MiB", "p50 ms", "p99 ms"
        )
    }

    pub(crate) fn row(&self) -> String {
        let number =
            |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        // Slow things need their decimals.
        let rate = |value: Option<f64>| number(value, if value.is_some_and(|value| value < 100.0) { 1 } else { 0 });
        format!(
            "{:<14} {:>9} {:>8} {:>8} {:>5} {:>7} {:>7} {:>6} {:>5} {:>8} {:>8}",
            self.work,
            self.in_flight.map_or("-".to_owned(), |n| n.to_string()),
            rate(self.per_s),
            rate(self.raw_per_s),
            number(self.ratio, 2),
            number(self.commits_per_step, 4),
            number(self.wal_bytes_per_step, 0),
            number(self.cpu_us_per_step, 1),
            number(self.rss_mib, 0),
            number(self.p50_ms, 2),
            number(self.p99_ms, 2),
        )
    }

    /// Of so many per second, the raw limit beside it.
    pub(crate) fn rates(&mut self, ours: Vec<f64>, raw: Vec<f64>) {
        let (ours, raw) = (median(ours), median(raw));
        self.per_s = Some(ours);
        self.raw_per_s = Some(raw);
        self.ratio = Some(ours / raw);
    }

    /// Of times in milliseconds.
    pub(crate) fn times(&mut self, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        self.p50_ms = quantile(&values, 50);
        self.p99_ms = quantile(&values, 99);
    }
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 50).unwrap_or(0.0)
}

fn quantile(sorted: &[f64], percent: usize) -> Option<f64> {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied()
}

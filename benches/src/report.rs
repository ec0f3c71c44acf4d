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
            "{:<16} {:>9} {:>8} {:>8} {:>5} {:>7} {:>7} {:>6} {:>5} {:>8} {:>8}",
            "work", "in flight", "per s", "raw/s", "ratio", "commits", "WAL B", "CPU us", "MiB", "p50 ms", "p99 ms"
        )
    }

    pub(crate) fn row(&self) -> String {
        let number =
            |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        // Slow things need their decimals.
        let rate = |value: Option<f64>| number(value, if value.is_some_and(|value| value < 100.0) { 1 } else { 0 });
        format!(
            "{:<16} {:>9} {:>8} {:>8} {:>5} {:>7} {:>7} {:>6} {:>5} {:>8} {:>8}",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_a_terminal_of_a_hundred_columns() {
        let report = Report {
            work: "throughput_256".to_owned(),
            in_flight: Some(10_000),
            per_s: Some(1_234_567.8),
            raw_per_s: Some(2_345_678.9),
            ratio: Some(0.53),
            commits_per_step: Some(1.0023),
            wal_bytes_per_step: Some(1_048_576.0),
            cpu_us_per_step: Some(1_234.5),
            rss_mib: Some(1_234.0),
            p50_ms: Some(12_345.67),
            p99_ms: Some(12_345.67),
            ..Report::default()
        };
        assert_eq!(report.row().len(), Report::heading().len());
        assert!(Report::heading().len() <= 100);
    }

    #[test]
    fn a_json_line_has_every_field() {
        let line = serde_json::to_value(Report::default()).unwrap();
        let fields = [
            "work",
            "store",
            "in_flight",
            "per_s",
            "raw_per_s",
            "ratio",
            "commits_per_step",
            "wal_bytes_per_step",
            "cpu_us_per_step",
            "rss_mib",
            "p50_ms",
            "p99_ms",
        ];
        assert!(fields.iter().all(|field| line.get(field).is_some()), "{line}");
        assert_eq!(line.as_object().map(serde_json::Map::len), Some(fields.len()));
    }

    #[test]
    fn the_middle_and_the_ninety_ninth_are_found() {
        let mut report = Report::default();
        report.times((1..=200).map(f64::from).collect());
        assert_eq!((report.p50_ms, report.p99_ms), (Some(101.0), Some(199.0)));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}

//! A line for each work.

use durable_peers_contest::{Shape, Work};
use serde::Serialize;

/// Medians of a work; absent what a contestant does not have.
#[derive(Serialize)]
pub(crate) struct Row {
    work: &'static str,
    /// What is counted.
    unit: &'static str,
    ours_per_s: Option<f64>,
    dbos_per_s: Option<f64>,
    durare_per_s: Option<f64>,
    /// Ours over the better peer.
    ratio: Option<f64>,
}

impl Row {
    /// From the figures of all rounds: ours, `dbos`, `durare`.
    pub(crate) fn new(work: &Work, figures: [Vec<f64>; 3]) -> Self {
        let [ours, dbos, durare] = figures.map(median);
        let best = [dbos, durare].into_iter().flatten().reduce(f64::max);
        Self {
            work: work.name,
            unit: if matches!(work.shape, Shape::Queue { .. }) { "workflows" } else { "steps" },
            ours_per_s: ours,
            dbos_per_s: dbos,
            durare_per_s: durare,
            ratio: ours.zip(best).map(|(ours, best)| ours / best),
        }
    }

    pub(crate) fn heading() -> String {
        format!(
            "{:<18} {:<10} {:>9} {:>9} {:>9} {:>16}",
            "work", "unit", "ours/s", "dbos/s", "durare/s", "ours ÷ best peer"
        )
    }

    pub(crate) fn line(&self) -> String {
        let number =
            |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        format!(
            "{:<18} {:<10} {:>9} {:>9} {:>9} {:>16}",
            self.work,
            self.unit,
            number(self.ours_per_s, 0),
            number(self.dbos_per_s, 0),
            number(self.durare_per_s, 0),
            number(self.ratio, 1),
        )
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

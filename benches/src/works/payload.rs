//! Steps with large outputs.

use std::time::Instant;

use durable::{step, workflow};

use super::{at_most, runtime};
use crate::database::Database;
use crate::report::Report;
use crate::{process, raw};

/// Workflows at a time.
const IN_FLIGHT: u32 = 50;

#[step]
async fn large(bytes: usize) -> String {
    words(bytes)
}

fn words(bytes: usize) -> String {
    "words that compress as prose does, more or less; ".chars().cycle().take(bytes).collect()
}

#[workflow]
async fn payloads(count: u32, bytes: usize) -> usize {
    let mut sum = 0;
    for _ in 0..count {
        sum += large(bytes).await.len();
    }
    sum
}

/// So many workflows, steps in each, and bytes in each output.
pub(super) struct Load {
    pub(super) bytes: usize,
    pub(super) workflows: u32,
    pub(super) steps: u32,
}

impl Load {
    pub(super) async fn measure(&self, database: &Database, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
        let in_flight = usize::try_from(IN_FLIGHT.min(self.workflows))?;
        report.in_flight = Some(in_flight);
        let batch = raw::Batch::of_payloads(&words(self.bytes));
        // About as many bytes as ours, an even number of commits for two connections.
        let commits = (32 << 20) / (self.bytes * 100);
        let commits = commits.clamp(4, 40) & !1;
        let runtime = runtime(database).await?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first round is not measured.
        for round in 0..=rounds {
            let begun = Instant::now();
            at_most(in_flight, self.workflows, |_| runtime.enter(payloads(self.steps, self.bytes))).await?;
            let per_s = f64::from(self.workflows * self.steps) / begun.elapsed().as_secs_f64();
            let raw = raw::batches(database, &batch, commits).await?;
            if round > 0 {
                ours.push(per_s);
                theirs.push(raw);
            }
        }
        report.rates(ours, theirs);
        report.rss_mib = Some(process::rss_mib());
        runtime.shutdown().await;
        Ok(())
    }
}

//! Steps that do nothing: what recording costs, one after the other and many at a time.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use durable::{Runtime, step, workflow};

use super::{at_most, runtime};
use crate::database::Database;
use crate::report::Report;
use crate::{process, raw};

#[step]
pub(super) async fn noop(n: u32) -> u32 {
    n
}

#[workflow]
async fn steps(count: u32) -> u32 {
    for n in 0..count {
        noop(n).await;
    }
    count
}

/// Milliseconds between the outcomes of consecutive steps.
static TIMES: Mutex<Vec<f64>> = Mutex::new(Vec::new());

/// The same, with a look at the clock after each step.
#[workflow]
async fn timed_steps(count: u32) -> u32 {
    let mut outcomes = Vec::new();
    for n in 0..count {
        noop(n).await;
        outcomes.push(now());
    }
    let times = outcomes.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64() * 1e3);
    TIMES.lock().unwrap_or_else(PoisonError::into_inner).extend(times);
    count
}

/// Not for what a workflow does, only for what is told about it.
fn now() -> Instant {
    Instant::now()
}

/// This many workflows of so many steps, at most so many at a time.
pub(super) struct Load {
    pub(super) workflows: u32,
    pub(super) steps: u32,
    pub(super) in_flight: usize,
}

impl Load {
    pub(super) async fn measure(&self, database: &Database, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
        report.in_flight = Some(self.in_flight);
        let runtime = runtime(database).await?;
        // One round unmeasured: statements are prepared, pages are there.
        self.run(&runtime).await?;
        self.count(database, &runtime, rounds, report).await?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(self.run(&runtime).await?);
            theirs.push(if self.in_flight == 1 {
                raw::single_rows(database, self.steps).await?
            } else {
                raw::batches(database, &raw::Batch::of_steps(), 400).await?
            });
        }
        report.rates(ours, theirs);
        report.rss_mib = Some(process::rss_mib());
        report.times(self.times(&runtime, rounds).await?);
        runtime.shutdown().await;
        Ok(())
    }

    /// Commits, log and processor time, of rounds with nothing of the raw limit between them.
    async fn count(
        &self,
        database: &Database,
        runtime: &Runtime,
        rounds: usize,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let (before, used) = (database.counts().await?, process::cpu_us());
        let mut done = 0.0;
        for _ in 0..rounds {
            self.run(runtime).await?;
            done += f64::from(self.workflows * self.steps);
        }
        report.cpu_us_per_step = Some((process::cpu_us() - used) / done);
        if let (Some(before), Some(after)) = (before, database.counts().await?) {
            report.commits_per_step = Some((after.commits - before.commits) as f64 / done);
            report.wal_bytes_per_step = Some((after.wal - before.wal) as f64 / done);
        }
        Ok(())
    }

    /// Steps per second.
    async fn run(&self, runtime: &Runtime) -> anyhow::Result<f64> {
        let begun = Instant::now();
        at_most(self.in_flight, self.workflows, |_| runtime.enter(steps(self.steps))).await?;
        Ok(f64::from(self.workflows * self.steps) / begun.elapsed().as_secs_f64())
    }

    /// In rounds of their own, so that taking times costs the throughput nothing.
    async fn times(&self, runtime: &Runtime, rounds: usize) -> anyhow::Result<Vec<f64>> {
        TIMES.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for _ in 0..rounds.div_ceil(2) {
            at_most(self.in_flight, self.workflows, |_| runtime.enter(timed_steps(self.steps))).await?;
        }
        Ok(std::mem::take(&mut *TIMES.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

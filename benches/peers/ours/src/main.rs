//! `durable` as a contestant.

use std::time::Instant;

use anyhow::Result;
use durable::{Builder, QueueLimits, Runtime, step, workflow};
use durable_peers_contest::{Contestant, Store, Target, body, end, main as contest};

/// Workflows at a time: more than any work has.
const AT_A_TIME: usize = 10_000;

struct Ours(Runtime);

#[step]
async fn noop(n: u32) -> u32 {
    body();
    n
}

#[workflow]
async fn steps(count: u32) -> u32 {
    for n in 0..count {
        noop(n).await;
    }
    end().await;
    count
}

impl Contestant for Ours {
    const STORES: &'static [Store] = &[Store::Postgres, Store::Sqlite];
    const QUEUES: bool = true;

    async fn start(target: &Target) -> Result<Self> {
        let builder = Builder::new().url(&target.url).max_running(AT_A_TIME).queue("queue", QueueLimits::new());
        Ok(Self(builder.build().await?))
    }

    async fn run(&self, count: u32) -> Result<()> {
        self.0.enter(steps(count)).await;
        Ok(())
    }

    async fn enqueue(&self) -> Result<()> {
        self.0.enter(async { steps::start(1).queue("queue").await }).await?;
        Ok(())
    }

    /// The second runs idle before the first gives back what it has.
    async fn replace(&self, target: &Target) -> Result<(Self, Instant)> {
        let second = Self::start(target).await?;
        self.stop().await;
        let begun = Instant::now();
        second.0.recover().await?;
        Ok((second, begun))
    }

    async fn stop(&self) {
        self.0.shutdown().await;
    }
}

fn main() -> Result<()> {
    contest::<Ours>()
}

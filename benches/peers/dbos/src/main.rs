//! `dbos` as a contestant.

use std::time::{Duration, Instant};

use anyhow::Result;
use dbos::{Config, DBOS, Enqueue, QueueConflict, QueueOptions, StartOptions, WorkflowRef, step};
use durable_peers_contest::{Contestant, Store, Target, body, end, main as contest, setting};

/// Connections; see the README.
const CONNECTIONS: u32 = 20;

/// Queued workflows that run at a time in this process; see the README.
const AT_A_TIME: i32 = 1_000;

/// Milliseconds between two looks into the queue; see the README.
const POLL_MS: u64 = 10;

struct Dbos {
    dbos: DBOS,
    steps: WorkflowRef<u32, u32>,
}

async fn steps(count: u32) -> dbos::Result<u32> {
    for n in 0..count {
        step("noop", move || async move {
            body();
            dbos::Result::Ok(n)
        })
        .await?;
    }
    end().await;
    Ok(count)
}

impl Contestant for Dbos {
    const STORES: &'static [Store] = &[Store::Postgres];
    const QUEUES: bool = true;

    async fn start(target: &Target) -> Result<Self> {
        let config = Config {
            app_version: Some("1".to_owned()),
            max_connections: setting("PEERS_CONNECTIONS", CONNECTIONS),
            use_listen_notify: true,
            ..Config::new("peers", &target.url)
        };
        let dbos = DBOS::new(config);
        let steps = dbos.register_workflow("steps", steps)?;
        dbos.launch().await?;
        let options = QueueOptions {
            worker_concurrency: Some(setting("PEERS_AT_A_TIME", AT_A_TIME)),
            polling_interval: Duration::from_millis(setting("PEERS_POLL_MS", POLL_MS)),
            ..Default::default()
        };
        dbos.register_queue("queue", options, QueueConflict::AlwaysUpdate).await?;
        Ok(Self { dbos, steps })
    }

    async fn run(&self, steps: u32) -> Result<()> {
        self.steps.run(steps).await?;
        Ok(())
    }

    async fn enqueue(&self) -> Result<()> {
        let options = StartOptions { queue: Some(Enqueue::new("queue")), ..Default::default() };
        self.steps.start_with(1, options).await?;
        Ok(())
    }

    /// `launch` itself recovers, with one statement; what it found runs once it has returned.
    async fn replace(&self, target: &Target) -> Result<(Self, Instant)> {
        self.stop().await;
        let second = Self::start(target).await?;
        Ok((second, Instant::now()))
    }

    async fn stop(&self) {
        self.dbos.shutdown().await;
    }
}

fn main() -> Result<()> {
    contest::<Dbos>()
}

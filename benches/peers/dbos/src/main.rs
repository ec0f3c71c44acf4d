//! `dbos` as a contestant.

use std::time::{Duration, Instant};

use anyhow::Result;
use dbos::{Config, DBOS, Enqueue, QueueConflict, QueueOptions, StartOptions, WorkflowRef, step};
use durable_peers_contest::{Contestant, Store, Target, body, end, main as contest, setting};

/// Connections; see the README.
const CONNECTIONS: u32 = 20;

struct Dbos {
    dbos: DBOS,
    steps: WorkflowRef<u32, u32>,
    launched: Instant,
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
        let launched = Instant::now();
        // Its defaults, no limit and a look each second, are its fastest; see the README.
        let defaults = QueueOptions::default();
        let options = QueueOptions {
            worker_concurrency: match setting("PEERS_AT_A_TIME", 0) {
                0 => defaults.worker_concurrency,
                limit => Some(limit),
            },
            polling_interval: match setting("PEERS_POLL_MS", 0) {
                0 => defaults.polling_interval,
                milliseconds => Duration::from_millis(milliseconds),
            },
            ..defaults
        };
        dbos.register_queue("queue", options, QueueConflict::AlwaysUpdate).await?;
        Ok(Self { dbos, steps, launched })
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
        let begun = second.launched;
        Ok((second, begun))
    }

    async fn stop(&self) {
        self.dbos.shutdown().await;
    }
}

fn main() -> Result<()> {
    contest::<Dbos>()
}

//! `durare` as a contestant.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use durable_peers_contest::{Contestant, Store, Target, body, end, main as contest, setting};
use durare::{
    DurableContext, DurableEngine, PostgresProvider, SqliteProvider, StateProvider, WorkflowOptions, WorkflowQueue,
};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

/// Connections to Postgres; see the README.
const CONNECTIONS: u32 = 20;

/// Connections to SQLite: its own default.
const SQLITE_CONNECTIONS: u32 = 5;

/// Queued workflows that run at a time in this process; see the README.
const AT_A_TIME: usize = 100;

/// Milliseconds between two looks into the queue; see the README.
const POLL_MS: u64 = 10;

struct Durare(DurableEngine);

#[durare::step]
async fn noop(ctx: &DurableContext, n: u32) -> durare::Result<u32> {
    body();
    Ok(n)
}

#[durare::workflow]
async fn steps(ctx: DurableContext, count: u32) -> durare::Result<u32> {
    for n in 0..count {
        noop(&ctx, n).await?;
    }
    end().await;
    Ok(count)
}

async fn provider(target: &Target) -> Result<Arc<dyn StateProvider>> {
    Ok(match target.store {
        Store::Postgres => {
            let options = PgConnectOptions::from_str(&target.url)?.options([("search_path", "dbos")]);
            let connections = setting("PEERS_CONNECTIONS", CONNECTIONS);
            let pool = PgPoolOptions::new().max_connections(connections).connect_with(options).await?;
            Arc::new(PostgresProvider::from_pool_with_schema(pool, "dbos")?)
        }
        Store::Sqlite => {
            // As its `connect`, but safe also when the power fails, as the others are.
            let options = SqliteConnectOptions::from_str(&target.url)?
                .create_if_missing(true)
                .foreign_keys(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                .busy_timeout(Duration::from_secs(5));
            let connections = setting("PEERS_SQLITE_CONNECTIONS", SQLITE_CONNECTIONS);
            let pool = SqlitePoolOptions::new().max_connections(connections).connect_with(options).await?;
            Arc::new(SqliteProvider::from_pool(pool))
        }
    })
}

impl Contestant for Durare {
    const STORES: &'static [Store] = &[Store::Postgres, Store::Sqlite];
    const QUEUES: bool = true;

    async fn start(target: &Target) -> Result<Self> {
        let mut engine = DurableEngine::new(provider(target).await?).await?;
        let at_a_time = setting("PEERS_AT_A_TIME", AT_A_TIME);
        engine.register_queue(
            WorkflowQueue::new("queue")
                .worker_concurrency(at_a_time)
                .max_tasks_per_iteration(at_a_time)
                .base_polling_interval(Duration::from_millis(setting("PEERS_POLL_MS", POLL_MS))),
        );
        engine.launch().await?;
        Ok(Self(engine))
    }

    async fn run(&self, steps: u32) -> Result<()> {
        self.0.start_with(Steps, steps, WorkflowOptions::default()).await?.result().await?;
        Ok(())
    }

    async fn enqueue(&self) -> Result<()> {
        self.0.start_with(Steps, 1, WorkflowOptions::default().queue("queue")).await?;
        Ok(())
    }

    /// `shutdown` can't stop a workflow that stands still; it does so for ever, which is what `recover` asks for.
    async fn replace(&self, target: &Target) -> Result<(Self, Instant)> {
        self.stop().await;
        let second = Self::start(target).await?;
        let begun = Instant::now();
        second.0.recover().await?;
        Ok((second, begun))
    }

    async fn stop(&self) {
        // It does not fail.
        let _ = self.0.shutdown(Duration::ZERO).await;
    }
}

fn main() -> Result<()> {
    contest::<Durare>()
}

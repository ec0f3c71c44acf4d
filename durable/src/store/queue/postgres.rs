//! Postgres.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::QueueStore;
use crate::model::{QueueInfo, QueueLimits};
use crate::store::Result;
use crate::store::postgres::PostgresStore;

const SET: &str = include_str!("set.postgres.sql");
const PAUSE: &str = include_str!("pause.postgres.sql");
const HAS: &str = include_str!("has.postgres.sql");
const LIST: &str = include_str!("list.postgres.sql");
const REGISTER: &str = include_str!("register.postgres.sql");

#[async_trait]
impl QueueStore for PostgresStore {
    async fn set_queue(&self, name: &str, limits: Option<&QueueLimits>) -> Result<()> {
        let given = limits.is_some();
        let limits = limits.cloned().unwrap_or_default();
        let query = self
            .query(SET)
            .bind(name)
            .bind(given)
            .bind(limits.concurrency.map(count))
            .bind(limits.executor_concurrency.map(count))
            .bind(limits.rate.map(|(n, _)| count(n)))
            .bind(limits.rate.map(|(_, window)| micros(window)))
            .bind(limits.partition_concurrency.map(count))
            .bind(limits.partition_executor_concurrency.map(count))
            .bind(limits.partition_rate.map(|(n, _)| count(n)))
            .bind(limits.partition_rate.map(|(_, window)| micros(window)));
        self.pool.ask(query).await?;
        Ok(())
    }

    async fn pause_queue(&self, name: &str, paused: bool) -> Result<bool> {
        let query = self.query(PAUSE).bind(name).bind(paused);
        Ok(self.pool.ask(query).await?.affected > 0)
    }

    async fn has_queue(&self, name: &str) -> Result<bool> {
        Ok(self.pool.ask(self.query(HAS).bind(name)).await?.one()?.try_get(0)?)
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        let rows = self.pool.ask(self.query(LIST)).await?.rows;
        rows.iter().map(info).collect()
    }

    async fn register_workflows(&self, workflows: &[(&'static str, i32, Arc<str>)]) -> Result<()> {
        let names: Vec<&str> = workflows.iter().map(|(name, _, _)| *name).collect();
        let versions: Vec<i32> = workflows.iter().map(|(_, version, _)| *version).collect();
        let queues: Vec<&str> = workflows.iter().map(|(_, _, queue)| &**queue).collect();
        let query = self.query(REGISTER).bind(names).bind(versions).bind(queues);
        self.pool.ask(query).await?;
        Ok(())
    }
}

fn count(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn info(row: &PgRow) -> Result<QueueInfo> {
    let limit =
        |column| Ok::<_, sqlx::Error>(row.try_get::<Option<i32>, _>(column)?.and_then(|n| u32::try_from(n).ok()));
    let window = |column| {
        let micros = row.try_get::<Option<i64>, _>(column)?;
        Ok::<_, sqlx::Error>(micros.map(|micros| Duration::from_micros(micros.unsigned_abs())))
    };
    let depth = |column| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)?.unsigned_abs());
    Ok(QueueInfo {
        name: row.try_get("name")?,
        paused: row.try_get("paused")?,
        limits: QueueLimits {
            concurrency: limit("concurrency")?,
            executor_concurrency: limit("executor_concurrency")?,
            rate: limit("rate")?.zip(window("rate_window")?),
            partition_concurrency: limit("partition_concurrency")?,
            partition_executor_concurrency: limit("partition_executor_concurrency")?,
            partition_rate: limit("partition_rate")?.zip(window("partition_rate_window")?),
        },
        pending: depth("pending")?,
        waiting: depth("waiting")?,
        running: depth("running")?,
    })
}

//! SQLite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::QueueStore;
use crate::model::{QueueInfo, QueueLimits};
use crate::store::Result;
use crate::store::sqlite::{SqliteStore, now};

const SET: &str = include_str!("set.sqlite.sql");
const PAUSE: &str = include_str!("pause.sqlite.sql");
const HAS: &str = include_str!("has.sqlite.sql");
const LIST: &str = include_str!("list.sqlite.sql");
const REGISTER: &str = include_str!("register.sqlite.sql");

#[async_trait]
impl QueueStore for SqliteStore {
    async fn set_queue(&self, name: &str, limits: Option<&QueueLimits>) -> Result<()> {
        let given = limits.is_some();
        let limits = limits.cloned().unwrap_or_default();
        sqlx::query(SET)
            .bind(name)
            .bind(given)
            .bind(limits.concurrency.map(count))
            .bind(limits.executor_concurrency.map(count))
            .bind(limits.rate.map(|(n, _)| count(n)))
            .bind(limits.rate.map(|(_, window)| micros(window)))
            .bind(limits.partition_concurrency.map(count))
            .bind(limits.partition_executor_concurrency.map(count))
            .bind(limits.partition_rate.map(|(n, _)| count(n)))
            .bind(limits.partition_rate.map(|(_, window)| micros(window)))
            .execute(&mut *self.write.take().await?)
            .await?;
        Ok(())
    }

    async fn pause_queue(&self, name: &str, paused: bool) -> Result<bool> {
        let query = sqlx::query(PAUSE).bind(name).bind(paused);
        Ok(query.execute(&mut *self.write.take().await?).await?.rows_affected() > 0)
    }

    async fn has_queue(&self, name: &str) -> Result<bool> {
        Ok(sqlx::query(HAS).bind(name).fetch_one(&mut *self.reader().await?).await?.try_get(0)?)
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        let rows = sqlx::query(LIST).fetch_all(&mut *self.reader().await?).await?;
        rows.iter().map(info).collect()
    }

    async fn register_workflows(&self, workflows: &[(&'static str, i32, Arc<str>)]) -> Result<()> {
        let rows: Vec<_> = workflows.iter().map(|(name, version, queue)| (*name, *version, &**queue)).collect();
        // Names and numbers always have a JSON text.
        let rows = serde_json::to_string(&rows).unwrap_or_default();
        sqlx::query(REGISTER).bind(rows).bind(now()).execute(&mut *self.write.take().await?).await?;
        Ok(())
    }
}

fn count(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn info(row: &SqliteRow) -> Result<QueueInfo> {
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

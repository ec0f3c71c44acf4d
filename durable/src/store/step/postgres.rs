//! Postgres: two plain reads by primary key; the driver decodes a million rows a second this way.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use sqlx::Row;

use super::StepStore;
use crate::model::{AttemptRecord, HistoryRows};
use crate::store::Result;
use crate::store::postgres::{PostgresStore, Time, step_record};

const OUTCOMES: &str = include_str!("outcomes.postgres.sql");
const ATTEMPTS: &str = include_str!("attempts.postgres.sql");

#[async_trait]
impl StepStore for PostgresStore {
    async fn load_histories(&self, ids: &[Arc<str>]) -> Result<HashMap<Arc<str>, HistoryRows>> {
        let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
        let mut histories: HashMap<Arc<str>, HistoryRows> = HashMap::new();
        let mut rows = self.pool.stream(self.query(OUTCOMES).bind(&ids));
        while let Some(row) = rows.try_next().await? {
            let id: &str = row.try_get("workflow_id")?;
            let history = match histories.get_mut(id) {
                Some(history) => history,
                None => histories.entry(id.into()).or_default(),
            };
            history.steps.push(step_record(&row)?);
        }
        drop(rows);
        for row in self.pool.ask(self.query(ATTEMPTS).bind(&ids)).await?.rows {
            let id: &str = row.try_get("workflow_id")?;
            histories.entry(id.into()).or_default().attempts.push(AttemptRecord {
                branch: row.try_get::<&str, _>("branch")?.into(),
                step_index: row.try_get("step_index")?,
                attempt: row.try_get("attempt")?,
                status: row.try_get("status")?,
                next_attempt_at: row.try_get::<Option<Time>, _>("next_attempt_at")?.map(|time| time.0),
            });
        }
        Ok(histories)
    }
}

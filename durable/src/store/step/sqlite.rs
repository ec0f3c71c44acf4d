//! SQLite: the ids go in as one JSON array.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use sqlx::Row;

use super::StepStore;
use crate::model::{AttemptRecord, HistoryRows};
use crate::store::Result;
use crate::store::sqlite::{SqliteStore, ids_json, step_record};

const OUTCOMES: &str = include_str!("outcomes.sqlite.sql");
const ATTEMPTS: &str = include_str!("attempts.sqlite.sql");

#[async_trait]
impl StepStore for SqliteStore {
    async fn load_histories(&self, ids: &[Arc<str>]) -> Result<HashMap<Arc<str>, HistoryRows>> {
        let ids = ids_json(ids);
        let mut histories: HashMap<Arc<str>, HistoryRows> = HashMap::new();
        let mut connection = self.reader().await?;
        let mut rows = sqlx::query(OUTCOMES).bind(&ids).fetch(&mut *connection);
        while let Some(row) = rows.try_next().await? {
            let id: &str = row.try_get("workflow_id")?;
            let history = match histories.get_mut(id) {
                Some(history) => history,
                None => histories.entry(id.into()).or_default(),
            };
            history.steps.push(step_record(&row)?);
        }
        drop(rows);
        for row in sqlx::query(ATTEMPTS).bind(&ids).fetch_all(&mut *connection).await? {
            let id: &str = row.try_get("workflow_id")?;
            histories.entry(id.into()).or_default().attempts.push(AttemptRecord {
                branch: row.try_get::<&str, _>("branch")?.into(),
                step_index: row.try_get("step_index")?,
                attempt: row.try_get("attempt")?,
                status: row.try_get("status")?,
                next_attempt_at: row.try_get("next_attempt_at")?,
            });
        }
        Ok(histories)
    }
}

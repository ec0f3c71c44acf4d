//! SQLite: an immediate transaction, which has the file to itself.

mod room;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{Connection, Row};

use super::{ClaimStore, GONE, Wanted};
use crate::model::{ClaimedWorkflow, StoredInput};
use crate::store::row::input;
use crate::store::sqlite::{SqliteStore, ids_json, now, payload_of, served_json};
use crate::store::{Lease, Result};
use room::Claim;

const DUE: &str = include_str!("due.sqlite.sql");
const HELD: &str = include_str!("held.sqlite.sql");
const INPUTS: &str = include_str!("inputs.sqlite.sql");
const RELEASE_ORPHANS: &str = include_str!("release_orphans.sqlite.sql");
const RELEASE_DEAD: &str = include_str!("release_dead.sqlite.sql");
const UNSERVED: &str = include_str!("unserved.sqlite.sql");

#[async_trait]
impl ClaimStore for SqliteStore {
    async fn claim_due(&self, lease: &Lease, wanted: &Wanted<'_>, limit: i64) -> Result<Vec<ClaimedWorkflow>> {
        // Most claims find nothing, and whoever writes waits for nobody who only looks.
        if !sqlx::query(DUE).bind(now()).fetch_one(&mut *self.reader().await?).await?.try_get::<bool, _>(0)? {
            return Ok(Vec::new());
        }
        let mut claimed = {
            let mut connection = self.write.take().await?;
            let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
            let query = sqlx::query(HELD).bind(&*lease.executor_id).bind(lease.writer).bind(lease.epoch);
            if !query.fetch_one(&mut *tx).await?.try_get::<bool, _>(0)? {
                return Ok(Vec::new());
            }
            let claimed = Claim::new(&mut tx, lease, wanted).take(limit).await?;
            tx.commit().await?;
            claimed
        };
        if claimed.is_empty() {
            return Ok(claimed);
        }
        let ids: Vec<Arc<str>> = claimed.iter().map(|workflow| Arc::clone(&workflow.workflow_id)).collect();
        let mut inputs: HashMap<String, std::result::Result<StoredInput, String>> = HashMap::with_capacity(ids.len());
        for row in sqlx::query(INPUTS).bind(ids_json(&ids)).fetch_all(&mut *self.reader().await?).await? {
            inputs.insert(row.try_get("workflow_id")?, input(payload_of(&row)));
        }
        for workflow in &mut claimed {
            workflow.input = inputs.remove(&*workflow.workflow_id).unwrap_or_else(|| Err(GONE.to_owned()));
        }
        Ok(claimed)
    }

    async fn release_orphans(&self, executor_id: &str, keep: &[Arc<str>]) -> Result<u64> {
        let query = sqlx::query(RELEASE_ORPHANS).bind(executor_id).bind(ids_json(keep)).bind(now());
        Ok(query.execute(&mut *self.write.take().await?).await?.rows_affected())
    }

    async fn release_dead(&self, executor_id: &str, max_recoveries: i32, limit: i64) -> Result<u64> {
        let query = sqlx::query(RELEASE_DEAD).bind(executor_id).bind(max_recoveries).bind(limit).bind(now());
        Ok(query.execute(&mut *self.write.take().await?).await?.rows_affected())
    }

    async fn unserved(&self, served: &[(&'static str, i32)]) -> Result<Vec<(String, i32, i64)>> {
        let rows = sqlx::query(UNSERVED).bind(served_json(served)).fetch_all(&mut *self.reader().await?).await?;
        rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("version")?, row.try_get("n")?))).collect()
    }
}

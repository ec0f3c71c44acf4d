//! Postgres: `FOR UPDATE SKIP LOCKED`, so that claimers pass each other by.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::Row;

use super::{ClaimStore, GONE, Wanted};
use crate::model::{ClaimedWorkflow, StoredInput};
use crate::store::postgres::{PostgresStore, payload_of};
use crate::store::row::input;
use crate::store::{Lease, Result};

const CLAIM_DUE: &str = include_str!("claim_due.postgres.sql");
const INPUTS: &str = include_str!("inputs.postgres.sql");
const RELEASE_ORPHANS: &str = include_str!("release_orphans.postgres.sql");
const RELEASE_DEAD: &str = include_str!("release_dead.postgres.sql");
const UNSERVED: &str = include_str!("unserved.postgres.sql");

fn columns(served: &[(&'static str, i32)]) -> (Vec<&'static str>, Vec<i32>) {
    served.iter().copied().unzip()
}

#[async_trait]
impl ClaimStore for PostgresStore {
    async fn claim_due(&self, lease: &Lease, wanted: &Wanted<'_>, limit: i64) -> Result<Vec<ClaimedWorkflow>> {
        let (names, versions) = columns(wanted.served);
        let rows = sqlx::query(self.schema.sql(CLAIM_DUE))
            .bind(&*lease.executor_id)
            .bind(lease.writer)
            .bind(lease.epoch)
            .bind(names)
            .bind(versions)
            .bind(limit)
            .bind(wanted.suspect_from)
            .bind(wanted.suspects)
            .fetch_all(&self.pool)
            .await?;
        let mut claimed = Vec::with_capacity(rows.len());
        for row in &rows {
            claimed.push(ClaimedWorkflow {
                workflow_id: row.try_get::<&str, _>("workflow_id")?.into(),
                name: row.try_get("name")?,
                version: row.try_get("version")?,
                epoch: row.try_get("epoch")?,
                seed: row.try_get("seed")?,
                input: Err(GONE.to_owned()),
            });
        }
        if claimed.is_empty() {
            return Ok(claimed);
        }
        let ids: Vec<&str> = claimed.iter().map(|workflow| &*workflow.workflow_id).collect();
        let mut inputs: HashMap<String, std::result::Result<StoredInput, String>> = HashMap::with_capacity(ids.len());
        for row in sqlx::query(self.schema.sql(INPUTS)).bind(&ids).fetch_all(&self.pool).await? {
            inputs.insert(row.try_get("workflow_id")?, input(payload_of(&row)));
        }
        for workflow in &mut claimed {
            if let Some(input) = inputs.remove(&*workflow.workflow_id) {
                workflow.input = input;
            }
        }
        Ok(claimed)
    }

    async fn release_orphans(&self, executor_id: &str, keep: &[Arc<str>]) -> Result<u64> {
        let keep: Vec<&str> = keep.iter().map(|id| &**id).collect();
        let sql = self.schema.sql(RELEASE_ORPHANS);
        Ok(sqlx::query(sql).bind(executor_id).bind(keep).execute(&self.pool).await?.rows_affected())
    }

    async fn release_dead(&self, executor_id: &str, max_recoveries: i32, limit: i64) -> Result<u64> {
        let sql = self.schema.sql(RELEASE_DEAD);
        let query = sqlx::query(sql).bind(executor_id).bind(max_recoveries).bind(limit);
        Ok(query.execute(&self.pool).await?.rows_affected())
    }

    async fn unserved(&self, served: &[(&'static str, i32)]) -> Result<Vec<(String, i32, i64)>> {
        let (names, versions) = columns(served);
        let rows = sqlx::query(self.schema.sql(UNSERVED)).bind(names).bind(versions).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("version")?, row.try_get("n")?))).collect()
    }
}

//! Postgres: the function `durable.claim`, one round trip. `FOR UPDATE SKIP LOCKED`, so that claimers pass each other by.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::Row;

use super::{ClaimStore, GONE, Wanted};
use crate::model::ClaimedWorkflow;
use crate::store::postgres::{PostgresStore, payload_of};
use crate::store::row::input;
use crate::store::{Lease, Result};

const CLAIM_DUE: &str = include_str!("claim_due.postgres.sql");
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
        let query = self
            .query(CLAIM_DUE)
            .bind(&*lease.executor_id)
            .bind(lease.writer)
            .bind(lease.epoch)
            .bind(wanted.queues)
            .bind(names)
            .bind(versions)
            .bind(i32::try_from(limit).unwrap_or(i32::MAX))
            .bind(wanted.suspect_from)
            .bind(wanted.suspects)
            .bind(wanted.turn);
        let rows = self.pool.ask(query).await?.rows;
        let mut claimed = Vec::with_capacity(rows.len());
        for row in &rows {
            claimed.push(ClaimedWorkflow {
                workflow_id: row.try_get::<&str, _>("workflow_id")?.into(),
                name: row.try_get("name")?,
                version: row.try_get("version")?,
                epoch: row.try_get("epoch")?,
                seed: row.try_get("seed")?,
                attempt: row.try_get("attempts")?,
                input: match row.try_get::<Option<i16>, _>("codec")? {
                    Some(_) => input(payload_of(row)),
                    None => Err(GONE.to_owned()),
                },
            });
        }
        Ok(claimed)
    }

    async fn release_orphans(&self, executor_id: &str, keep: &[Arc<str>]) -> Result<u64> {
        let keep: Vec<&str> = keep.iter().map(|id| &**id).collect();
        Ok(self.pool.ask(self.query(RELEASE_ORPHANS).bind(executor_id).bind(keep)).await?.affected)
    }

    async fn release_dead(&self, executor_id: &str, max_recoveries: i32, limit: i64) -> Result<u64> {
        let query = self.query(RELEASE_DEAD).bind(executor_id).bind(max_recoveries).bind(limit);
        Ok(self.pool.ask(query).await?.affected)
    }

    async fn unserved(&self, served: &[(&'static str, i32)]) -> Result<Vec<(String, i32, i64)>> {
        let (names, versions) = columns(served);
        let rows = self.pool.ask(self.query(UNSERVED).bind(names).bind(versions)).await?.rows;
        rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("version")?, row.try_get("n")?))).collect()
    }
}

//! Postgres: single statements; a resume and a retry are transactions on a connection of their own.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::postgres::PgConnection;

use super::{CancelAnswer, ResumeAnswer, Retry, RetryAnswer, Stopped, WorkflowStore};
use crate::codec::Outcome;
use crate::model::{ResumeKeys, StoredInput, WorkflowState, WorkflowStatus, set_aside};
use crate::store::connection::EngineConnection;
use crate::store::postgres::{PostgresStore, Time, payload_of, result_of, workflow_state};
use crate::store::{Lease, Result, StoreError};

const WORKFLOW: &str = include_str!("workflow.postgres.sql");
const PAYLOAD: &str = include_str!("payload.postgres.sql");
const UNSETTLED: &str = include_str!("unsettled.postgres.sql");
const TAKEN_AWAY: &str = include_str!("taken_away.postgres.sql");
const CANCEL: &str = include_str!("cancel.postgres.sql");
const RETRY: &str = include_str!("retry.postgres.sql");
const STOPPED: &str = include_str!("stopped.postgres.sql");
const RESUME_LOCK: &str = include_str!("resume_lock.postgres.sql");
const RESUME: &str = include_str!("resume.postgres.sql");
const RESUME_KEYS: &str = include_str!("resume_keys.postgres.sql");
const RESUME_ASIDE: &str = include_str!("resume_aside.postgres.sql");
const RESUME_RESULT: &str = include_str!("resume_result.postgres.sql");

#[async_trait]
impl WorkflowStore for PostgresStore {
    async fn workflow(&self, id: &str) -> Result<Option<WorkflowState>> {
        let row = self.pool.ask(self.query(WORKFLOW).bind(id)).await?.first();
        row.as_ref().map(workflow_state).transpose()
    }

    async fn input(&self, id: &str) -> Result<Option<StoredInput>> {
        let row = self.pool.ask(self.query(PAYLOAD).bind(id).bind("input")).await?.first();
        Ok(row.as_ref().map(payload_of).transpose()?.flatten().map(|payload| StoredInput { payload }))
    }

    async fn result(&self, id: &str) -> Result<Option<Outcome>> {
        let row = self.pool.ask(self.query(PAYLOAD).bind(id).bind("result")).await?.first();
        row.as_ref().map(|row| result_of(id, row)).transpose()
    }

    async fn unsettled(&self, ids: &[Arc<str>]) -> Result<HashSet<String>> {
        let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
        let rows = self.pool.ask(self.query(UNSETTLED).bind(ids)).await?.rows;
        rows.iter().map(|row| Ok(row.try_get("workflow_id")?)).collect()
    }

    async fn taken_away(&self, executor_id: &str, ids: &[Arc<str>]) -> Result<Vec<(String, bool)>> {
        let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
        let rows = self.pool.ask(self.query(TAKEN_AWAY).bind(executor_id).bind(ids)).await?.rows;
        rows.iter().map(|row| Ok((row.try_get("workflow_id")?, row.try_get("cancelled")?))).collect()
    }

    async fn cancel(&self, id: &str, reason: &str, write_id: i64) -> Result<CancelAnswer> {
        loop {
            let query = self.query(CANCEL).bind(id).bind(reason).bind(write_id);
            if let Some(row) = self.pool.ask(query).await?.first() {
                let at = Some(row.try_get::<Time, _>("completed_at")?.0);
                return Ok(CancelAnswer::Cancelled { epoch: row.try_get("epoch")?, at });
            }
            match self.workflow(id).await? {
                None => return Ok(CancelAnswer::Missing),
                Some(state) if state.write_id == write_id => {
                    return Ok(CancelAnswer::Cancelled { epoch: state.epoch, at: None });
                }
                Some(state) if state.status.has_ended() => return Ok(CancelAnswer::Ended(Box::new(state))),
                // Another executor claimed it in between.
                Some(_) => {}
            }
        }
    }

    async fn resume(&self, id: &str, write_id: i64) -> Result<ResumeAnswer> {
        let mut slot = self.apart.lock().await;
        let mut connection = self.take_apart(&mut slot).await?;
        let mut tx = connection.begin().await?;
        self.query(RESUME_LOCK).bind(id).execute(&mut *tx).await?;
        let changed = match self.query(RESUME).bind(id).bind(write_id).execute(&mut *tx).await {
            Ok(done) => done.rows_affected(),
            // The one unique index that a resume can run into is that of dedup keys.
            Err(error) if StoreError::is_conflict(&error) => return Ok(ResumeAnswer::Duplicate),
            Err(error) => return Err(error.into()),
        };
        if changed == 0 {
            tx.rollback().await?;
            *slot = Some(connection);
            return Ok(match self.workflow(id).await? {
                None => ResumeAnswer::Missing,
                Some(state) if state.write_id == write_id && state.status == WorkflowStatus::Pending => {
                    ResumeAnswer::Resumed
                }
                Some(state) => ResumeAnswer::Refused(Box::new(state)),
            });
        }
        self.begin_attempt(&mut tx, id).await?;
        tx.commit().await?;
        *slot = Some(connection);
        Ok(ResumeAnswer::Resumed)
    }

    async fn retry(&self, lease: &Lease, retry: &Retry<'_>) -> Result<RetryAnswer> {
        let mut slot = self.apart.lock().await;
        let mut connection = self.take_apart(&mut slot).await?;
        let mut tx = connection.begin().await?;
        let query = self
            .query(RETRY)
            .bind(retry.workflow_id)
            .bind(retry.epoch)
            .bind(retry.delay)
            .bind(retry.error_message)
            .bind(retry.write_id)
            .bind(&*lease.executor_id)
            .bind(lease.writer)
            .bind(lease.epoch);
        if query.execute(&mut *tx).await?.rows_affected() == 0 {
            tx.rollback().await?;
            *slot = Some(connection);
            return Ok(match self.workflow(retry.workflow_id).await? {
                Some(state) if state.write_id == retry.write_id => RetryAnswer::Waiting,
                state => RetryAnswer::Fenced(state.map(Box::new)),
            });
        }
        self.begin_attempt(&mut tx, retry.workflow_id).await?;
        tx.commit().await?;
        *slot = Some(connection);
        Ok(RetryAnswer::Waiting)
    }

    async fn stopped(&self, which: &Stopped, after: &str, limit: i64) -> Result<Vec<String>> {
        let statuses: Vec<&str> = which.statuses.iter().map(|status| status.as_str()).collect();
        let query = self
            .query(STOPPED)
            .bind(statuses)
            .bind(which.name.as_deref())
            .bind(which.queue.as_deref())
            .bind(which.tag.as_deref())
            .bind(after)
            .bind(limit);
        let rows = self.pool.ask(query).await?.rows;
        rows.iter().map(|row| Ok(row.try_get("workflow_id")?)).collect()
    }
}

impl PostgresStore {
    /// The connection for transactions, which is put back when all went well: one that a caller who gave up left inside
    /// a transaction is closed, and never seen again.
    async fn take_apart(&self, slot: &mut Option<EngineConnection>) -> Result<EngineConnection> {
        match slot.take() {
            Some(connection) => Ok(connection),
            None => self.connection().await,
        }
    }

    /// What a new workflow attempt sets aside, in the transaction that began it.
    async fn begin_attempt(&self, tx: &mut PgConnection, id: &str) -> Result<()> {
        let mut keys = Vec::new();
        for row in self.query(RESUME_KEYS).bind(id).fetch_all(&mut *tx).await? {
            keys.push(ResumeKeys {
                branch: row.try_get("branch")?,
                step_index: row.try_get("step_index")?,
                is_error: row.try_get::<&str, _>("status")? == "error",
            });
        }
        let aside = set_aside(&keys);
        if !aside.is_empty() {
            let branches: Vec<&str> = aside.iter().map(|key| key.branch.as_str()).collect();
            let indexes: Vec<i32> = aside.iter().map(|key| key.step_index).collect();
            let query = self.query(RESUME_ASIDE).bind(id).bind(branches).bind(indexes);
            query.execute(&mut *tx).await?;
        }
        self.query(RESUME_RESULT).bind(id).execute(&mut *tx).await?;
        Ok(())
    }
}

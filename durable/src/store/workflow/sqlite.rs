//! SQLite: immediate transactions on the writing connection.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{Connection, Row, SqliteConnection};

use super::{CancelAnswer, ResumeAnswer, Retry, RetryAnswer, Stopped, WorkflowStore};
use crate::codec::Outcome;
use crate::model::{ResumeKeys, StoredInput, WorkflowState, WorkflowStatus, set_aside};
use crate::store::sqlite::{SqliteStore, ids_json, now, payload_of, result_of, workflow_state};
use crate::store::{Lease, Result, StoreError};

const WORKFLOW: &str = include_str!("workflow.sqlite.sql");
const PAYLOAD: &str = include_str!("payload.sqlite.sql");
const UNSETTLED: &str = include_str!("unsettled.sqlite.sql");
const TAKEN_AWAY: &str = include_str!("taken_away.sqlite.sql");
const CANCEL: &str = include_str!("cancel.sqlite.sql");
const INTERRUPT: &str = include_str!("interrupt.sqlite.sql");
const RETRY: &str = include_str!("retry.sqlite.sql");
const STOPPED: &str = include_str!("stopped.sqlite.sql");
const RESUME: &str = include_str!("resume.sqlite.sql");
const RESUME_KEYS: &str = include_str!("resume_keys.sqlite.sql");
const RESUME_ASIDE: &str = include_str!("resume_aside.sqlite.sql");
const RESUME_REMOVE: &str = include_str!("resume_remove.sqlite.sql");
const RESUME_RESULT: &str = include_str!("resume_result.sqlite.sql");

#[async_trait]
impl WorkflowStore for SqliteStore {
    async fn workflow(&self, id: &str) -> Result<Option<WorkflowState>> {
        let row = sqlx::query(WORKFLOW).bind(id).fetch_optional(&mut *self.reader().await?).await?;
        row.as_ref().map(workflow_state).transpose()
    }

    async fn input(&self, id: &str) -> Result<Option<StoredInput>> {
        let row = sqlx::query(PAYLOAD).bind(id).bind("input").fetch_optional(&mut *self.reader().await?).await?;
        Ok(row.as_ref().map(payload_of).transpose()?.flatten().map(|payload| StoredInput { payload }))
    }

    async fn result(&self, id: &str) -> Result<Option<Outcome>> {
        let row = sqlx::query(PAYLOAD).bind(id).bind("result").fetch_optional(&mut *self.reader().await?).await?;
        row.as_ref().map(|row| result_of(id, row)).transpose()
    }

    async fn unsettled(&self, ids: &[Arc<str>]) -> Result<HashSet<String>> {
        let rows = sqlx::query(UNSETTLED).bind(ids_json(ids)).fetch_all(&mut *self.reader().await?).await?;
        rows.iter().map(|row| Ok(row.try_get("workflow_id")?)).collect()
    }

    async fn taken_away(&self, executor_id: &str, ids: &[Arc<str>]) -> Result<Vec<(String, bool)>> {
        let rows =
            sqlx::query(TAKEN_AWAY).bind(executor_id).bind(ids_json(ids)).fetch_all(&mut *self.reader().await?).await?;
        rows.iter().map(|row| Ok((row.try_get("workflow_id")?, row.try_get("cancelled")?))).collect()
    }

    async fn cancel(&self, id: &str, reason: &str, write_id: i64) -> Result<CancelAnswer> {
        let mut connection = self.write.take().await?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let at = now();
        let query = sqlx::query(CANCEL).bind(id).bind(reason).bind(write_id).bind(at);
        let (interrupted, epoch): (Option<String>, i32) = match query.fetch_optional(&mut *tx).await? {
            Some(row) => (row.try_get("executor_id")?, row.try_get("epoch")?),
            None => {
                drop(tx);
                drop(connection);
                return Ok(match self.workflow(id).await? {
                    None => CancelAnswer::Missing,
                    Some(state) if state.write_id == write_id => {
                        CancelAnswer::Cancelled { epoch: state.epoch, at: None }
                    }
                    Some(state) => CancelAnswer::Ended(Box::new(state)),
                });
            }
        };
        if let Some(executor) = &interrupted {
            sqlx::query(INTERRUPT).bind(executor).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(CancelAnswer::Cancelled { epoch, at: Some(at) })
    }

    async fn resume(&self, id: &str, write_id: i64) -> Result<ResumeAnswer> {
        let mut connection = self.write.take().await?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let changed = match sqlx::query(RESUME).bind(id).bind(write_id).bind(now()).execute(&mut *tx).await {
            Ok(done) => done.rows_affected(),
            // The one unique index that a resume can run into is that of dedup keys.
            Err(error) if StoreError::is_conflict(&error) => return Ok(ResumeAnswer::Duplicate),
            Err(error) => return Err(error.into()),
        };
        if changed == 0 {
            drop(tx);
            drop(connection);
            return Ok(match self.workflow(id).await? {
                None => ResumeAnswer::Missing,
                Some(state) if state.write_id == write_id && state.status == WorkflowStatus::Pending => {
                    ResumeAnswer::Resumed
                }
                Some(state) => ResumeAnswer::Refused(Box::new(state)),
            });
        }
        begin_attempt(&mut tx, id).await?;
        tx.commit().await?;
        Ok(ResumeAnswer::Resumed)
    }

    async fn retry(&self, lease: &Lease, retry: &Retry<'_>) -> Result<RetryAnswer> {
        let mut connection = self.write.take().await?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let query = sqlx::query(RETRY)
            .bind(retry.workflow_id)
            .bind(retry.epoch)
            .bind(retry.delay)
            .bind(retry.error_message)
            .bind(retry.write_id)
            .bind(&*lease.executor_id)
            .bind(lease.writer)
            .bind(lease.epoch)
            .bind(now());
        if query.execute(&mut *tx).await?.rows_affected() == 0 {
            drop(tx);
            drop(connection);
            return Ok(match self.workflow(retry.workflow_id).await? {
                Some(state) if state.write_id == retry.write_id => RetryAnswer::Waiting,
                state => RetryAnswer::Fenced(state.map(Box::new)),
            });
        }
        begin_attempt(&mut tx, retry.workflow_id).await?;
        tx.commit().await?;
        Ok(RetryAnswer::Waiting)
    }

    async fn stopped(&self, which: &Stopped, after: &str, limit: i64) -> Result<Vec<String>> {
        let statuses: Vec<&str> = which.statuses.iter().map(|status| status.as_str()).collect();
        // Words always have a JSON text.
        let query = sqlx::query(STOPPED)
            .bind(serde_json::to_string(&statuses).unwrap_or_default())
            .bind(which.name.as_deref())
            .bind(which.queue.as_deref())
            .bind(which.tag.as_deref())
            .bind(after)
            .bind(limit);
        let rows = query.fetch_all(&mut *self.reader().await?).await?;
        rows.iter().map(|row| Ok(row.try_get("workflow_id")?)).collect()
    }
}

/// What a new workflow attempt sets aside, in the transaction that began it.
async fn begin_attempt(tx: &mut SqliteConnection, id: &str) -> Result<()> {
    let mut keys = Vec::new();
    for row in sqlx::query(RESUME_KEYS).bind(id).fetch_all(&mut *tx).await? {
        keys.push(ResumeKeys {
            branch: row.try_get("branch")?,
            step_index: row.try_get("step_index")?,
            is_error: row.try_get::<&str, _>("status")? == "error",
        });
    }
    for key in set_aside(&keys) {
        sqlx::query(RESUME_ASIDE).bind(id).bind(&key.branch).bind(key.step_index).execute(&mut *tx).await?;
        sqlx::query(RESUME_REMOVE).bind(id).bind(&key.branch).bind(key.step_index).execute(&mut *tx).await?;
    }
    sqlx::query(RESUME_RESULT).bind(id).execute(tx).await?;
    Ok(())
}

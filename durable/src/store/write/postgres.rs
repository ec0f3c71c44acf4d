//! Postgres: one CTE statement per batch on a held connection with pinned planner settings.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::query::Query;
use sqlx::{Arguments, Postgres, Row, SqlSafeStr};

use super::{Inspected, Renewal, Tally, WriteStore, WriterConnection};
use crate::codec::{Codec, Data, Outcome, Payload};
use crate::model::{AttemptOp, Op, SettleOp, StartOp, StepOp};
use crate::store::connection::{EngineConnection, Sessions};
use crate::store::postgres::{JsonText, PostgresStore, Schema, Time, step_record, workflow_state};
use crate::store::{Lease, Result, StoreError, StoreErrorKind};

const BATCH: &str = include_str!("batch.postgres.sql");
const STEP: &str = include_str!("step.postgres.sql");
const INSPECT_WORKFLOWS: &str = include_str!("inspect_workflows.postgres.sql");
const INSPECT_STEPS: &str = include_str!("inspect_steps.postgres.sql");
const LEASE: &str = include_str!("lease.postgres.sql");

impl WriteStore for PostgresStore {
    fn writer(&self, lease: Lease) -> Box<dyn WriterConnection> {
        Box::new(PostgresWriter {
            options: self.options.clone(),
            sessions: self.sessions(),
            schema: self.schema.clone(),
            lease,
            connection: None,
        })
    }

    fn writers(&self) -> i32 {
        2
    }
}

struct PostgresWriter {
    options: PgConnectOptions,
    sessions: Sessions,
    schema: Schema,
    lease: Lease,
    connection: Option<EngineConnection>,
}

/// The tolerant twin of a statement: taken step keys are skipped and an earlier result is replaced, at a fifth more cost.
fn tolerant(text: &'static str) -> String {
    text.replace("/* tolerate step */", "ON CONFLICT (workflow_id, branch, step_index) DO NOTHING").replace(
        "/* tolerate result */",
        "ON CONFLICT (workflow_id, part) DO UPDATE SET codec = excluded.codec, error_encoding = excluded.error_encoding,
         payload = excluded.payload, payload_bytes = excluded.payload_bytes",
    )
}

impl PostgresWriter {
    async fn connection(&mut self) -> Result<&mut EngineConnection> {
        if self.connection.is_none() {
            self.connection = Some(EngineConnection::open_pinned(&self.options, self.sessions).await?);
        }
        self.connection
            .as_mut()
            .ok_or_else(|| StoreError::new(StoreErrorKind::Unavailable, "the writer has no connection"))
    }

    fn sql(&self, text: &'static str, tolerate: bool) -> sqlx::SqlStr {
        if !tolerate {
            return self.schema.sql(text);
        }
        let name = format!("{}.", self.schema.name());
        sqlx::AssertSqlSafe(tolerant(text).replace("durable.", &name)).into_sql_str()
    }

    async fn send_step(&mut self, op: &StepOp, tolerate: bool) -> Result<Tally> {
        let sql = self.sql(STEP, tolerate);
        let lease = self.lease.clone();
        let (is_error, payload, encoding, message) = outcome_columns(&op.outcome);
        let (text, bytes) = payload_columns(payload);
        let query = bind_lease(sqlx::query(sql), &lease)
            .bind(&*op.workflow_id)
            .bind(&*op.key.branch)
            .bind(op.key.index)
            .bind(op.seq)
            .bind(op.kind)
            .bind(&*op.site.step_name)
            .bind(if is_error { "error" } else { "done" })
            .bind(payload.codec)
            .bind(encoding)
            .bind(text)
            .bind(bytes)
            .bind(message)
            .bind(op.args_hash)
            .bind(&*op.site.call)
            .bind(&*op.site.definition)
            .bind(op.attempts)
            .bind(op.epoch)
            .bind(op.write_id)
            .bind(Time(op.started_at))
            .bind(Time(op.completed_at));
        let written = self.connection().await?.ask(query).await?.affected;
        Ok(Tally { steps: i64::from(written > 0), ..Tally::default() })
    }
}

#[async_trait]
impl WriterConnection for PostgresWriter {
    async fn send(&mut self, ops: &[Op], tolerate: bool) -> Result<Tally> {
        if let [Op::Step(op)] = ops {
            return self.send_step(op, tolerate).await;
        }
        let sql = self.sql(BATCH, tolerate);
        let arguments = batch_arguments(&self.lease, ops)
            .map_err(|error| StoreError::new(StoreErrorKind::Data, format!("a value can't be sent: {error}")))?;
        let row = self.connection().await?.ask(sqlx::query_with(sql, arguments)).await?.one()?;
        Ok(Tally {
            starts: row.try_get(0)?,
            steps: row.try_get(1)?,
            attempts: row.try_get(2)?,
            settles: row.try_get(3)?,
        })
    }

    async fn inspect(&mut self, ops: &[Op]) -> Result<Vec<Inspected>> {
        let ids: Vec<&str> = ops.iter().map(|op| &**op.workflow_id()).collect();
        let steps: Vec<&StepOp> =
            ops.iter().filter_map(|op| if let Op::Step(step) = op { Some(step) } else { None }).collect();
        let step_ids: Vec<&str> = steps.iter().map(|step| &*step.workflow_id).collect();
        let branches: Vec<&str> = steps.iter().map(|step| &*step.key.branch).collect();
        let indexes: Vec<i32> = steps.iter().map(|step| step.key.index).collect();
        let about_workflows = self.schema.query(INSPECT_WORKFLOWS).bind(&ids);
        let about_steps = self.schema.query(INSPECT_STEPS).bind(&step_ids).bind(&branches).bind(&indexes);
        let connection = self.connection().await?;
        let workflows = connection.ask(about_workflows).await?.rows;
        let stored = connection.ask(about_steps).await?.rows;
        let mut stored = stored.iter();
        let mut found = Vec::with_capacity(ops.len());
        for (op, row) in ops.iter().zip(&workflows) {
            let mut inspected = Inspected::default();
            if row.try_get::<Option<String>, _>("workflow_id")?.is_some() {
                inspected.workflow = Some(workflow_state(row)?);
            }
            if matches!(op, Op::Step(_))
                && let Some(row) = stored.next()
                && row.try_get::<Option<String>, _>("workflow_id")?.is_some()
            {
                inspected.step = Some(step_record(row)?);
            }
            found.push(inspected);
        }
        Ok(found)
    }

    async fn renew(&mut self) -> Result<Renewal> {
        let (executor, writer) = (self.lease.executor_id.clone(), self.lease.writer);
        let query = self.schema.query(LEASE).bind(&*executor).bind(writer);
        let row = self.connection().await?.ask(query).await?.first();
        let Some(row) = row else { return Ok(Renewal::Lost) };
        let before = std::mem::replace(&mut self.lease.interruptions, row.try_get("interruptions")?);
        Ok(match row.try_get::<i32, _>("epoch")? == self.lease.epoch {
            false => Renewal::Lost,
            true if before == self.lease.interruptions => Renewal::Held,
            true => Renewal::Interrupted,
        })
    }

    async fn reset(&mut self) {
        if let Some(connection) = self.connection.take() {
            // The server may be the one that hangs: a goodbye is not worth waiting for.
            tokio::time::timeout(Duration::from_millis(100), connection.close()).await.ok();
        }
    }
}

fn bind_lease<'q>(query: Query<'q, Postgres, PgArguments>, lease: &'q Lease) -> Query<'q, Postgres, PgArguments> {
    query.bind(&*lease.executor_id).bind(lease.writer).bind(lease.epoch).bind(lease.interruptions)
}

fn outcome_columns(outcome: &Outcome) -> (bool, &Payload, Option<&'static str>, Option<&str>) {
    match outcome {
        Outcome::Done(payload) => (false, payload, None, None),
        Outcome::Error { payload, encoding, message } => (true, payload, Some(encoding.as_str()), Some(message)),
    }
}

fn payload_columns(payload: &Payload) -> (Option<JsonText<'_>>, Option<&[u8]>) {
    match &payload.data {
        Data::Text(text) => (Some(JsonText(text)), None),
        Data::Bytes(bytes) => (None, Some(bytes)),
    }
}

/// The value, unless it is the one that the statement takes for an absent one.
fn unless<T: PartialEq>(value: T, usual: T) -> Option<T> {
    (value != usual).then_some(value)
}

/// One array per column, in the order of the statement's parameters.
fn batch_arguments(lease: &Lease, ops: &[Op]) -> std::result::Result<PgArguments, sqlx::error::BoxDynError> {
    let mut starts: Vec<&StartOp> = Vec::new();
    let mut steps: Vec<&StepOp> = Vec::new();
    let mut attempts: Vec<&AttemptOp> = Vec::new();
    let mut settles: Vec<&SettleOp> = Vec::new();
    for op in ops {
        match op {
            Op::Start(op) => starts.push(op),
            Op::Step(op) => steps.push(op),
            Op::Attempt(op) => attempts.push(op),
            Op::Settle(op) => settles.push(op),
        }
    }
    // In key order: two processes that start the same workflows wait for each other otherwise.
    starts.sort_unstable_by(|one, other| one.workflow_id.cmp(&other.workflow_id));
    // And what is near in an index is near in time: a page that the last row touched is in the processor's cache.
    steps.sort_unstable_by(|one, other| one.workflow_id.cmp(&other.workflow_id));
    settles.sort_unstable_by(|one, other| one.workflow_id.cmp(&other.workflow_id));
    let mut a = PgArguments::default();
    macro_rules! column {
        ($rows:ident, $row:ident => $value:expr) => {
            a.add($rows.iter().map(|$row| $value).collect::<Vec<_>>())?;
        };
    }
    // A column whose every value is the usual one, `None` here, is sent empty: `unnest` pads it.
    macro_rules! unusual {
        ($rows:ident, $row:ident => $value:expr) => {
            let usual = $rows.iter().all(|$row| $value.is_none());
            a.add(if usual { Vec::new() } else { $rows.iter().map(|$row| $value).collect::<Vec<_>>() })?;
        };
    }
    a.add(&*lease.executor_id)?;
    a.add(lease.writer)?;
    a.add(lease.epoch)?;
    a.add(lease.interruptions)?;

    column!(starts, r => &*r.workflow_id);
    column!(starts, r => r.name);
    column!(starts, r => r.version);
    column!(starts, r => r.run_here);
    column!(starts, r => r.seed);
    column!(starts, r => r.write_id);
    column!(starts, r => r.input.codec);
    column!(starts, r => payload_columns(&r.input).0);
    unusual!(starts, r => payload_columns(&r.input).1);

    column!(steps, r => &*r.workflow_id);
    unusual!(steps, r => unless(&*r.key.branch, ""));
    column!(steps, r => r.key.index);
    column!(steps, r => r.seq);
    unusual!(steps, r => unless(r.kind, "step"));
    column!(steps, r => &*r.site.step_name);
    unusual!(steps, r => unless(r.outcome.payload().codec, Codec::Json.id()));
    unusual!(steps, r => outcome_columns(&r.outcome).2);
    column!(steps, r => payload_columns(r.outcome.payload()).0);
    unusual!(steps, r => payload_columns(r.outcome.payload()).1);
    unusual!(steps, r => outcome_columns(&r.outcome).3);
    unusual!(steps, r => r.args_hash);
    column!(steps, r => &*r.site.call);
    column!(steps, r => &*r.site.definition);
    unusual!(steps, r => unless(r.attempts, 1));
    unusual!(steps, r => unless(r.epoch, 1));
    column!(steps, r => r.write_id);
    column!(steps, r => Time(r.started_at));
    column!(steps, r => Time(r.completed_at));

    column!(attempts, r => &*r.workflow_id);
    column!(attempts, r => &*r.key.branch);
    column!(attempts, r => r.key.index);
    column!(attempts, r => r.epoch);
    column!(attempts, r => r.attempt);
    column!(attempts, r => r.step_name);
    column!(attempts, r => r.status.as_str());
    column!(attempts, r => r.error_message.as_deref());
    column!(attempts, r => Time(r.started_at));
    column!(attempts, r => r.ended_at.map(Time));
    column!(attempts, r => r.next_attempt_at.map(Time));

    column!(settles, r => &*r.workflow_id);
    column!(settles, r => r.epoch);
    column!(settles, r => r.status.as_str());
    unusual!(settles, r => r.reason.as_deref());
    unusual!(settles, r => r.error_message.as_deref());
    column!(settles, r => r.write_id);
    column!(settles, r => r.result.as_ref().map(|o| o.payload().codec));
    unusual!(settles, r => r.result.as_ref().and_then(|o| outcome_columns(o).2));
    column!(settles, r => r.result.as_ref().and_then(|o| payload_columns(o.payload()).0));
    unusual!(settles, r => r.result.as_ref().and_then(|o| payload_columns(o.payload()).1));
    unusual!(starts, r => r.queue.as_deref());
    Ok(a)
}

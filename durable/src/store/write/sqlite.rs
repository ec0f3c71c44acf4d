//! SQLite: one fenced multi-row statement for each kind in a batch; several kinds share an immediate transaction.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, AssertSqlSafe, Connection, Row, SqlSafeStr, SqlStr, SqliteConnection};

use super::{Inspected, Renewal, Tally, WriteStore, WriterConnection};
use crate::codec::{Data, Outcome, Payload};
use crate::model::{AttemptOp, Op, SettleOp, StartOp, StepOp};
use crate::store::sqlite::{One, SqliteStore, now, step_record, with_rows, workflow_state};
use crate::store::{Lease, Result, StoreError, StoreErrorKind};

const START: &str = include_str!("start.sqlite.sql");
const INPUT: &str = include_str!("input.sqlite.sql");
const STEP: &str = include_str!("step.sqlite.sql");
const ATTEMPT: &str = include_str!("attempt.sqlite.sql");
const RESULT: &str = include_str!("result.sqlite.sql");
const SETTLE: &str = include_str!("settle.sqlite.sql");
const INSPECT_WORKFLOWS: &str = include_str!("inspect_workflows.sqlite.sql");
const INSPECT_STEPS: &str = include_str!("inspect_steps.sqlite.sql");
const LEASE: &str = include_str!("lease.sqlite.sql");

/// Statements come in few lengths, so that the prepared ones stay few; rows of NULL fill them up.
const LENGTHS: [usize; 6] = [1, 4, 16, 64, 256, 512];

impl WriteStore for SqliteStore {
    fn writer(&self, lease: Lease) -> Box<dyn WriterConnection> {
        let texts = Texts {
            start: Text::new(START),
            input: Text::new(INPUT),
            step: Text::new(STEP),
            tolerant_step: Text::new(
                &STEP.replace("/* tolerate step */", "ON CONFLICT (workflow_id, branch, step_index) DO NOTHING"),
            ),
            attempt: Text::new(ATTEMPT),
            result: Text::new(RESULT),
            settle: Text::new(SETTLE),
        };
        Box::new(SqliteWriter { connection: self.write.clone(), lease, texts })
    }

    fn writers(&self) -> i32 {
        1
    }
}

/// One statement in each of its lengths.
struct Text([SqlStr; LENGTHS.len()]);

impl Text {
    fn new(text: &str) -> Self {
        // Shared, so that a send copies no text.
        Self(LENGTHS.map(|rows| AssertSqlSafe(Arc::<str>::from(with_rows(text, rows))).into_sql_str()))
    }
}

struct Texts {
    start: Text,
    input: Text,
    step: Text,
    tolerant_step: Text,
    attempt: Text,
    result: Text,
    settle: Text,
}

struct SqliteWriter {
    connection: One,
    lease: Lease,
    texts: Texts,
}

/// One kind of row: its statement, and how a row is bound.
async fn write<T>(
    connection: &mut SqliteConnection,
    lease: &Lease,
    text: &Text,
    columns: usize,
    rows: &[&T],
    add: impl Fn(&mut SqliteArguments, &T) -> std::result::Result<(), sqlx::error::BoxDynError>,
) -> Result<i64> {
    let mut written = 0;
    let longest = LENGTHS[LENGTHS.len() - 1];
    for rows in rows.chunks(longest) {
        let class = LENGTHS.iter().position(|length| *length >= rows.len()).unwrap_or(LENGTHS.len() - 1);
        let mut arguments = SqliteArguments::default();
        arguments.reserve(4 + LENGTHS[class] * columns, 0);
        let bound = (|| {
            arguments.add(Arc::clone(&lease.executor_id))?;
            arguments.add(lease.writer)?;
            arguments.add(lease.epoch)?;
            arguments.add(now())?;
            for row in rows {
                add(&mut arguments, row)?;
            }
            for _ in 0..(LENGTHS[class] - rows.len()) * columns {
                arguments.add(None::<i64>)?;
            }
            Ok::<(), sqlx::error::BoxDynError>(())
        })();
        bound.map_err(|error| StoreError::new(StoreErrorKind::Data, format!("a value can't be sent: {error}")))?;
        let answer = sqlx::query_with(text.0[class].clone(), arguments).execute(&mut *connection).await?;
        written += i64::try_from(answer.rows_affected()).unwrap_or(i64::MAX);
    }
    Ok(written)
}

/// A batch by kind, in the order it is written.
#[derive(Default)]
struct Kinds<'a> {
    starts: Vec<&'a StartOp>,
    steps: Vec<&'a StepOp>,
    attempts: Vec<&'a AttemptOp>,
    settles: Vec<&'a SettleOp>,
}

impl SqliteWriter {
    async fn write_kinds(&self, connection: &mut SqliteConnection, kinds: &Kinds<'_>, tolerate: bool) -> Result<Tally> {
        let (lease, texts) = (&self.lease, &self.texts);
        let step = if tolerate { &texts.tolerant_step } else { &texts.step };
        let starts = write(connection, lease, &texts.start, 7, &kinds.starts, add_start).await?;
        write(connection, lease, &texts.input, 5, &kinds.starts, add_input).await?;
        let steps = write(connection, lease, step, 19, &kinds.steps, add_step).await?;
        let attempts = write(connection, lease, &texts.attempt, 11, &kinds.attempts, add_attempt).await?;
        write(connection, lease, &texts.result, 6, &kinds.settles, add_result).await?;
        let settles = write(connection, lease, &texts.settle, 6, &kinds.settles, add_settle).await?;
        Ok(Tally { starts, steps, attempts, settles })
    }
}

#[async_trait]
impl WriterConnection for SqliteWriter {
    async fn send(&mut self, ops: &[Op], tolerate: bool) -> Result<Tally> {
        let mut kinds = Kinds::default();
        for op in ops {
            match op {
                Op::Start(op) => kinds.starts.push(op),
                Op::Step(op) => kinds.steps.push(op),
                Op::Attempt(op) => kinds.attempts.push(op),
                Op::Settle(op) => kinds.settles.push(op),
            }
        }
        // Neighbours in an index share its pages.
        kinds.steps.sort_unstable_by(|one, other| one.workflow_id.cmp(&other.workflow_id));
        kinds.settles.sort_unstable_by(|one, other| one.workflow_id.cmp(&other.workflow_id));
        let mut connection = self.connection.take().await?;
        // Steps alone are one statement, which commits by itself.
        let single = kinds.starts.is_empty()
            && kinds.settles.is_empty()
            && (kinds.steps.is_empty() || kinds.attempts.is_empty());
        if single && kinds.steps.len().max(kinds.attempts.len()) <= LENGTHS[LENGTHS.len() - 1] {
            return self.write_kinds(&mut connection, &kinds, tolerate).await;
        }
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let tally = self.write_kinds(&mut tx, &kinds, tolerate).await?;
        tx.commit().await?;
        Ok(tally)
    }

    async fn inspect(&mut self, ops: &[Op]) -> Result<Vec<Inspected>> {
        let mut connection = self.connection.take().await?;
        let mut found = Vec::with_capacity(ops.len());
        for op in ops {
            let mut inspected = Inspected::default();
            let row = sqlx::query(INSPECT_WORKFLOWS).bind(&**op.workflow_id()).fetch_optional(&mut *connection).await?;
            inspected.workflow = row.as_ref().map(workflow_state).transpose()?;
            if let Op::Step(step) = op {
                let query =
                    sqlx::query(INSPECT_STEPS).bind(&*step.workflow_id).bind(&*step.key.branch).bind(step.key.index);
                let row = query.fetch_optional(&mut *connection).await?;
                inspected.step = row.as_ref().map(step_record).transpose()?;
            }
            found.push(inspected);
        }
        Ok(found)
    }

    async fn renew(&mut self) -> Result<Renewal> {
        let query = sqlx::query(LEASE).bind(&*self.lease.executor_id).bind(self.lease.writer);
        let Some(row) = query.fetch_optional(&mut *self.connection.take().await?).await? else {
            return Ok(Renewal::Lost);
        };
        // Writers take turns, so nobody interrupts a statement.
        Ok(if row.try_get::<i32, _>("epoch")? == self.lease.epoch { Renewal::Held } else { Renewal::Lost })
    }

    async fn reset(&mut self) {
        // What takes the connection next replaces it if it was left unusable.
    }
}

type Added = std::result::Result<(), sqlx::error::BoxDynError>;

/// Text that the caller keeps: one copy, into what the driver hands to its thread.
fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn add_payload(a: &mut SqliteArguments, payload: Option<&Payload>) -> Added {
    match payload.map(|payload| &payload.data) {
        Some(Data::Text(json)) => {
            a.add(text(json))?;
            a.add(None::<Vec<u8>>)
        }
        Some(Data::Bytes(bytes)) => {
            a.add(None::<Arc<str>>)?;
            a.add(bytes.clone())
        }
        None => {
            a.add(None::<Arc<str>>)?;
            a.add(None::<Vec<u8>>)
        }
    }
}

fn encoding(outcome: &Outcome) -> (Option<&'static str>, Option<Arc<str>>) {
    match outcome {
        Outcome::Done(_) => (None, None),
        Outcome::Error { encoding, message, .. } => (Some(encoding.as_str()), Some(text(message))),
    }
}

fn add_start(a: &mut SqliteArguments, row: &StartOp) -> Added {
    a.add(Arc::clone(&row.workflow_id))?;
    a.add(row.name)?;
    a.add(row.version)?;
    a.add(i32::from(row.run_here))?;
    a.add(row.seed)?;
    a.add(row.write_id)?;
    a.add(row.queue.clone())
}

fn add_input(a: &mut SqliteArguments, row: &StartOp) -> Added {
    a.add(Arc::clone(&row.workflow_id))?;
    a.add(row.write_id)?;
    a.add(row.input.codec)?;
    add_payload(a, Some(&row.input))
}

/// What is usual is not sent: NULL costs nothing to bind.
fn add_step(a: &mut SqliteArguments, row: &StepOp) -> Added {
    let (encoding, message) = encoding(&row.outcome);
    a.add(Arc::clone(&row.workflow_id))?;
    a.add((!row.key.branch.is_empty()).then(|| Arc::clone(&row.key.branch)))?;
    a.add(row.key.index)?;
    a.add(row.seq)?;
    a.add((row.kind != "step").then_some(row.kind))?;
    a.add(Arc::clone(&row.site.step_name))?;
    a.add(row.outcome.payload().codec)?;
    a.add(encoding)?;
    add_payload(a, Some(row.outcome.payload()))?;
    a.add(message)?;
    a.add(row.args_hash)?;
    a.add(Arc::clone(&row.site.call))?;
    a.add(Arc::clone(&row.site.definition))?;
    a.add(row.attempts)?;
    a.add(row.epoch)?;
    a.add(row.write_id)?;
    a.add(row.started_at)?;
    a.add(row.completed_at)
}

fn add_attempt(a: &mut SqliteArguments, row: &AttemptOp) -> Added {
    a.add(Arc::clone(&row.workflow_id))?;
    a.add(Arc::clone(&row.key.branch))?;
    a.add(row.key.index)?;
    a.add(row.epoch)?;
    a.add(row.attempt)?;
    a.add(row.step_name)?;
    a.add(row.status.as_str())?;
    a.add(row.error_message.as_deref().map(text))?;
    a.add(row.started_at)?;
    a.add(row.ended_at)?;
    a.add(row.next_attempt_at)
}

fn add_result(a: &mut SqliteArguments, row: &SettleOp) -> Added {
    a.add(Arc::clone(&row.workflow_id))?;
    a.add(row.epoch)?;
    a.add(row.result.as_ref().map(|outcome| outcome.payload().codec))?;
    a.add(row.result.as_ref().and_then(|outcome| encoding(outcome).0))?;
    add_payload(a, row.result.as_ref().map(Outcome::payload))
}

fn add_settle(a: &mut SqliteArguments, row: &SettleOp) -> Added {
    a.add(Arc::clone(&row.workflow_id))?;
    a.add(row.epoch)?;
    a.add(row.status.as_str())?;
    a.add(row.reason.as_deref().map(text))?;
    a.add(row.error_message.as_deref().map(text))?;
    a.add(row.write_id)
}

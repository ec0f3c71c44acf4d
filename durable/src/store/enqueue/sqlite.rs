//! SQLite: multi-row statements in one immediate transaction.

use async_trait::async_trait;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, AssertSqlSafe, Connection, Row, SqliteConnection};

use super::EnqueueStore;
use crate::codec::Data;
use crate::model::{Due, EnqueueRow, Micros, Submitted};
use crate::store::sqlite::{SqliteStore, now, with_rows};
use crate::store::{Result, StoreError, StoreErrorKind};

const SUBMIT: &str = include_str!("submit.sqlite.sql");
const INPUT: &str = include_str!("input.sqlite.sql");
const TAKEN: &str = include_str!("taken.sqlite.sql");
const MISSING: &str = include_str!("missing.sqlite.sql");
const LINK: &str = include_str!("link.sqlite.sql");
const WAITED_FOR: &str = include_str!("waited_for.sqlite.sql");
const WAIT: &str = include_str!("wait.sqlite.sql");
const FALL: &str = include_str!("fall.sqlite.sql");

/// Rows of a statement: few lengths, so that the prepared ones stay few; rows of NULL fill them up.
const LENGTHS: [usize; 4] = [1, 16, 128, 512];

#[async_trait]
impl EnqueueStore for SqliteStore {
    async fn submit(&self, rows: &[EnqueueRow]) -> Result<Vec<Submitted>> {
        let mut connection = self.write.take().await?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let at = now();
        let mut recorded = 0;
        for chunk in rows.chunks(LENGTHS[LENGTHS.len() - 1]) {
            recorded += insert(&mut tx, SUBMIT, 11, chunk, Some(at), |a, row| add_row(a, row, at)).await?;
            insert(&mut tx, INPUT, 5, chunk, None, add_input).await?;
        }
        let mut answers = vec![Submitted::New; rows.len()];
        if usize::try_from(recorded).unwrap_or(0) < rows.len() {
            taken(&mut tx, rows, &mut answers).await?;
        }
        if rows.iter().any(|row| !row.after.is_empty()) {
            link(&mut tx, rows, &answers, at).await?;
        }
        tx.commit().await?;
        Ok(answers)
    }

    async fn wake(&self, _queues: &[String]) -> Result<()> {
        // Whoever has the file open sees that it changed.
        Ok(())
    }
}

type Added = std::result::Result<(), sqlx::error::BoxDynError>;

async fn insert(
    tx: &mut SqliteConnection,
    text: &str,
    columns: usize,
    rows: &[EnqueueRow],
    at: Option<Micros>,
    add: impl Fn(&mut SqliteArguments, &EnqueueRow) -> Added,
) -> Result<u64> {
    let length = LENGTHS.into_iter().find(|length| *length >= rows.len()).unwrap_or(rows.len());
    let mut arguments = SqliteArguments::default();
    let bound = (|| {
        if let Some(at) = at {
            arguments.add(at)?;
        }
        for row in rows {
            add(&mut arguments, row)?;
        }
        for _ in 0..(length - rows.len()) * columns {
            arguments.add(None::<i64>)?;
        }
        Ok::<(), sqlx::error::BoxDynError>(())
    })();
    bound.map_err(|error| StoreError::new(StoreErrorKind::Data, format!("a value can't be sent: {error}")))?;
    let sql = AssertSqlSafe(with_rows(text, length));
    Ok(sqlx::query_with(sql, arguments).execute(tx).await?.rows_affected())
}

fn add_row(a: &mut SqliteArguments, row: &EnqueueRow, at: Micros) -> Added {
    a.add(row.workflow_id.to_string())?;
    a.add(row.name.to_string())?;
    a.add(row.version)?;
    a.add(row.queue.to_string())?;
    a.add(row.priority)?;
    a.add(match row.due {
        Due::Now => None,
        Due::In(delay) => Some(at.saturating_add(delay)),
        Due::At(at) => Some(at),
    })?;
    a.add(row.dedup_key.clone())?;
    a.add(row.partition_key.clone())?;
    a.add((!row.tags.is_empty()).then(|| serde_json::to_string(&row.tags)).transpose()?)?;
    a.add(row.seed)?;
    a.add(row.write_id)
}

fn add_input(a: &mut SqliteArguments, row: &EnqueueRow) -> Added {
    a.add(row.workflow_id.to_string())?;
    a.add(row.write_id)?;
    a.add(row.input.codec)?;
    let (text, bytes) = match &row.input.data {
        Data::Text(text) => (Some(text.clone()), None),
        Data::Bytes(bytes) => (None, Some(bytes.clone())),
    };
    a.add(text)?;
    a.add(bytes)
}

/// Answers for the rows that were left out.
async fn taken(tx: &mut SqliteConnection, rows: &[EnqueueRow], answers: &mut [Submitted]) -> Result<()> {
    let asked: Vec<_> =
        rows.iter().map(|row| (&*row.workflow_id, row.write_id, &*row.name, row.dedup_key.as_deref())).collect();
    for found in sqlx::query(TAKEN).bind(json(&asked)?).fetch_all(tx).await? {
        let (n, id): (i64, Option<String>) = (found.try_get("n")?, found.try_get("found")?);
        let Some(place) = usize::try_from(n).ok().filter(|place| *place < rows.len()) else { continue };
        answers[place] = match id {
            Some(id) if *id == *rows[place].workflow_id => Submitted::Exists,
            Some(id) => Submitted::Duplicate(id),
            None => return Err(StoreError::new(StoreErrorKind::Retry, "a row was refused for no reason that is left")),
        };
    }
    Ok(())
}

/// Makes new workflows wait for others.
async fn link(tx: &mut SqliteConnection, rows: &[EnqueueRow], answers: &[Submitted], at: Micros) -> Result<()> {
    let links: Vec<_> = rows
        .iter()
        .zip(answers)
        .filter(|(_, answer)| **answer == Submitted::New)
        .flat_map(|(row, _)| {
            row.after.iter().map(|link| (&*row.workflow_id, &*link.workflow_id, i32::from(link.any_end)))
        })
        .collect();
    let links = json(&links)?;
    if let Some(row) = sqlx::query(MISSING).bind(&links).fetch_optional(&mut *tx).await? {
        let id: String = row.try_get(0)?;
        return Err(StoreError::new(
            StoreErrorKind::NotFound,
            format!("there is no workflow with the id `{id}` to run after"),
        ));
    }
    for statement in [LINK, WAITED_FOR, WAIT] {
        sqlx::query(statement).bind(&links).execute(&mut *tx).await?;
    }
    sqlx::query(FALL).bind(&links).bind(at).execute(tx).await?;
    Ok(())
}

fn json(rows: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(rows)
        .map_err(|error| StoreError::new(StoreErrorKind::Data, format!("a value can't be sent: {error}")))
}

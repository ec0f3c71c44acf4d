//! Postgres: one call of `durable.submit` for each batch.

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use sqlx::{Arguments, Row};

use super::EnqueueStore;
use crate::codec::Data;
use crate::model::{Due, EnqueueRow, Submitted};
use crate::store::postgres::{JsonText, PostgresStore, Time};
use crate::store::{Result, StoreError, StoreErrorKind};

const SUBMIT: &str = include_str!("submit.postgres.sql");
const WAKE: &str = include_str!("wake.postgres.sql");

#[async_trait]
impl EnqueueStore for PostgresStore {
    async fn submit(&self, rows: &[EnqueueRow]) -> Result<Vec<Submitted>> {
        let arguments = arguments(rows)
            .map_err(|error| StoreError::new(StoreErrorKind::Data, format!("a value can't be sent: {error}")))?;
        let taken = self
            .pool
            .ask(sqlx::query_with(self.schema.sql(SUBMIT), arguments))
            .await
            .map_err(|error| missing_prerequisite(error, rows))?;
        let mut answers = vec![Submitted::New; rows.len()];
        for row in &taken.rows {
            let (n, found): (i32, Option<String>) = (row.try_get("n")?, row.try_get("found")?);
            let Some(place) = usize::try_from(n - 1).ok().filter(|place| *place < rows.len()) else { continue };
            answers[place] = match found {
                Some(id) if *id == *rows[place].workflow_id => Submitted::Exists,
                Some(id) => Submitted::Duplicate(id),
                // Whoever held the key has ended in between: nothing was recorded, ask again.
                None => return Err(StoreError::new(StoreErrorKind::Retry, "a dedup key was freed in between")),
            };
        }
        Ok(answers)
    }

    async fn wake(&self, queues: &[String]) -> Result<()> {
        self.pool.ask(self.query(WAKE).bind(queues)).await?;
        Ok(())
    }
}

/// What the function says of a prerequisite, as an error of ours.
fn missing_prerequisite(error: sqlx::Error, rows: &[EnqueueRow]) -> StoreError {
    let said = error.as_database_error().map(|error| error.message().to_owned());
    let error = StoreError::from(error);
    match said {
        Some(message) if error.kind == StoreErrorKind::NotFound && !rows.is_empty() => {
            StoreError::new(StoreErrorKind::NotFound, message)
        }
        _ => error,
    }
}

/// One array per column, in the order of the statement's parameters. A column without values is sent empty.
fn arguments(rows: &[EnqueueRow]) -> std::result::Result<PgArguments, sqlx::error::BoxDynError> {
    let mut a = PgArguments::default();
    macro_rules! column {
        ($row:ident => $value:expr) => {
            a.add(rows.iter().map(|$row| $value).collect::<Vec<_>>())?;
        };
    }
    macro_rules! unusual {
        ($row:ident => $value:expr) => {
            let usual = rows.iter().all(|$row| $value.is_none());
            a.add(if usual { Vec::new() } else { rows.iter().map(|$row| $value).collect::<Vec<_>>() })?;
        };
    }
    let tags: Vec<Option<String>> = rows
        .iter()
        .map(|row| (!row.tags.is_empty()).then(|| serde_json::to_string(&row.tags)).transpose())
        .collect::<std::result::Result<_, _>>()?;
    let mut tags = tags.iter();
    column!(r => &*r.workflow_id);
    column!(r => &*r.name);
    column!(r => r.version);
    column!(r => &*r.queue);
    unusual!(r => (r.priority != 0).then_some(r.priority));
    unusual!(r => if let Due::In(delay) = r.due { Some(delay) } else { None });
    unusual!(r => if let Due::At(at) = r.due { Some(Time(at)) } else { None });
    unusual!(r => r.dedup_key.as_deref());
    unusual!(r => r.partition_key.as_deref());
    a.add(rows.iter().map(|_| tags.next().and_then(Option::as_deref).map(JsonText)).collect::<Vec<_>>())?;
    column!(r => r.input.codec);
    column!(r => if let Data::Text(text) = &r.input.data { Some(JsonText(text)) } else { None });
    unusual!(r => if let Data::Bytes(bytes) = &r.input.data { Some(bytes.as_slice()) } else { None });
    column!(r => r.seed);
    column!(r => r.write_id);
    let links = || rows.iter().flat_map(|row| row.after.iter().map(move |link| (row, link)));
    a.add(links().map(|(row, _)| &*row.workflow_id).collect::<Vec<_>>())?;
    a.add(links().map(|(row, _)| row.write_id).collect::<Vec<_>>())?;
    a.add(links().map(|(_, link)| &*link.workflow_id).collect::<Vec<_>>())?;
    a.add(links().map(|(_, link)| link.any_end).collect::<Vec<_>>())?;
    Ok(a)
}

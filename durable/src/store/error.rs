//! What a database said, sorted by what the engine can do about it.
//!
//! Guarantees that the two drivers' codes are translated at one place. Layer: store.

use std::future::Future;
use std::time::Duration;

use crate::error::{Error, ErrorKind};

/// How long one question to the database may take. A network that is silent and not broken ends here; what a statement
/// did by then is unknown, and repeating it is safe.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer, or the error that none came.
pub(crate) async fn in_time<T>(question: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(PATIENCE, question).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::new(
            StoreErrorKind::Unavailable,
            format!("the database did not answer within {PATIENCE:?}"),
        )),
    }
}

/// A refused or failed statement.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct StoreError {
    pub(crate) kind: StoreErrorKind,
    pub(crate) message: String,
    #[source]
    source: Option<sqlx::Error>,
}

/// What the engine does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreErrorKind {
    /// The connection is gone or was never there; whether the statement committed is unknown. Connect and repeat.
    Unavailable,
    /// Deadlock, serialization failure, busy file: nothing was written. Repeat.
    Retry,
    /// A unique key is taken: nothing was written. Repeat the flush tolerating conflicts, and ask.
    Conflict,
    /// The database refuses a value: nothing was written. Find the row, and refuse it alone.
    Data,
    /// Something that a row refers to does not exist: nothing was written.
    NotFound,
    /// Full disk: nothing was written. Somebody must make room.
    Full,
    /// Read-only file, server or demoted primary: nothing was written.
    ReadOnly,
    /// The user lacks a right.
    Permission,
    /// Table or schema missing, or of another version.
    Schema,
    /// A setting is wrong.
    Configuration,
    /// A stored row or file is damaged.
    Corrupt,
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The same once more, for another who has to know; the driver's own error goes with the first.
    pub(crate) fn again(&self) -> Self {
        let message = match &self.source {
            Some(source) => format!("{}: {source}", self.message),
            None => self.message.clone(),
        };
        Self { kind: self.kind, message, source: None }
    }

    /// True if the same statement can succeed later with nobody changing the program: the engine keeps what it has
    /// and repeats.
    pub(crate) fn is_passing(&self) -> bool {
        use StoreErrorKind as K;
        matches!(self.kind, K::Unavailable | K::Retry | K::Full | K::ReadOnly | K::Permission | K::Schema | K::Corrupt)
    }

    /// True if the question may simply be asked again: nothing is known to be wrong with it.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable | StoreErrorKind::Retry)
    }

    /// True if a unique key is taken.
    pub(crate) fn is_conflict(error: &sqlx::Error) -> bool {
        error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
    }

    /// True if the connection should be replaced before the next try.
    pub(crate) fn wants_reconnect(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable | StoreErrorKind::ReadOnly | StoreErrorKind::Corrupt)
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        use StoreErrorKind as K;
        let kind = match &error {
            sqlx::Error::Database(db) => {
                // Postgres answers with a five-character SQLSTATE, SQLite with its extended result code.
                let code = db.code().unwrap_or_default();
                if code.len() == 5
                    && !code.starts_with('-')
                    && db.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_none()
                {
                    from_sqlstate(&code)
                } else {
                    from_sqlite_code(code.parse().unwrap_or(0))
                }
            }
            sqlx::Error::Configuration(_) => K::Configuration,
            sqlx::Error::Encode(_) => K::Data,
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) => K::Corrupt,
            _ => K::Unavailable,
        };
        let message = match kind {
            K::Unavailable => "the database can't be reached; check that it runs and that the URL is right".to_owned(),
            K::Schema => {
                "a table of durable is missing or of another version; start once with migrations on".to_owned()
            }
            K::Permission => "the database user lacks a right that durable needs".to_owned(),
            K::ReadOnly => "the database is read-only".to_owned(),
            K::Full => "the database has no room left to write".to_owned(),
            K::Corrupt => "the database returned something that can't be read".to_owned(),
            K::Configuration => "the database settings are wrong".to_owned(),
            K::Data => "the database refused a value".to_owned(),
            K::NotFound => "the database has no such row".to_owned(),
            K::Retry | K::Conflict => "the database refused a statement for now".to_owned(),
        };
        Self { kind, message, source: Some(error) }
    }
}

fn from_sqlstate(code: &str) -> StoreErrorKind {
    use StoreErrorKind as K;
    match code {
        "23505" => K::Conflict,
        "DU404" => K::NotFound,
        "40001" | "40P01" | "55P03" | "55006" => K::Retry,
        "25006" => K::ReadOnly,
        "42501" => K::Permission,
        "3F000" | "42P01" | "42703" | "42883" => K::Schema,
        "3D000" | "28000" | "28P01" | "0A000" => K::Configuration,
        "53100" | "53200" => K::Full,
        "XX001" | "XX002" => K::Corrupt,
        _ if code.starts_with("22") || code.starts_with("54") || code.starts_with("23") => K::Data,
        _ => K::Unavailable,
    }
}

fn from_sqlite_code(code: i32) -> StoreErrorKind {
    use StoreErrorKind as K;
    // Extended codes that mean more than their class.
    if matches!(code, 1555 | 2067) {
        return K::Conflict;
    }
    match code & 0xff {
        5 | 6 => K::Retry,
        8 => K::ReadOnly,
        13 => K::Full,
        3 | 23 => K::Permission,
        18..=20 => K::Data,
        11 | 26 => K::Corrupt,
        1 => K::Schema,
        _ => K::Unavailable,
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        use StoreErrorKind as K;
        let kind = match error.kind {
            K::Unavailable | K::Retry | K::Conflict => ErrorKind::Unavailable,
            K::Full | K::ReadOnly => ErrorKind::ReadOnly,
            K::Permission => ErrorKind::PermissionDenied,
            K::Schema => ErrorKind::Schema,
            K::Data => ErrorKind::InvalidPayload,
            K::NotFound => ErrorKind::NotFound,
            K::Configuration => ErrorKind::Configuration,
            K::Corrupt => ErrorKind::Undecodable,
        };
        let out = Self::new(kind, error.message);
        match error.source {
            Some(source) => out.with_source(source),
            None => out,
        }
    }
}

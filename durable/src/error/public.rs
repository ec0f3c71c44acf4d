//! The one public error type.

use std::error::Error as StdError;
use std::fmt;

/// What went wrong, where, and what to do. The kind tells a program, the text a person.
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What a program can tell errors apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is wrong: URL, schema name, limit, a name registered twice.
    Configuration,
    /// The database can't be reached, or went away for longer than the call may wait.
    Unavailable,
    /// The database refuses to write: full disk, read-only file or server.
    ReadOnly,
    /// The database user lacks a right.
    PermissionDenied,
    /// The schema is missing, older than this build needs with migrations off, or newer than it knows.
    Schema,
    /// A workflow id is empty, blank, too long or has control characters.
    InvalidId,
    /// An input or outcome can't be stored: too large, too deep, a non-finite float, or it does not read back.
    InvalidPayload,
    /// An option of a start or a limit of a queue can't be followed.
    InvalidOption,
    /// Nobody has named the queue.
    UnknownQueue,
    /// An unfinished run has the dedup key.
    Duplicate,
    /// The id belongs to a workflow of another name, version or input.
    AlreadyExists,
    /// No workflow has this id.
    NotFound,
    /// The workflow has already ended, so it can't be cancelled, or it is running, so it can't be resumed.
    AlreadyEnded,
    /// The workflow ended as failed, in a way its own error type can't express.
    Failed,
    /// The workflow was cancelled.
    Cancelled,
    /// The workflow ran out of attempts or recoveries.
    Dead,
    /// The workflow waits for a person or a deploy: it diverged, or its payload can't be decoded.
    Blocked,
    /// A stored row can't be read as what the caller asked for.
    Undecodable,
    /// The runtime is shutting down.
    ShuttingDown,
    /// The call isn't possible where it was made.
    Unsupported,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What a program can tell errors apart by.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .field("source", &self.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

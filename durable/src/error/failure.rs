//! `Failure`: a recorded failure in words, the bridge between the library and the user's error types.
//!
//! Guarantees that display, debug and source chain read the same on the first run and on every replay.
//! Does not carry a backtrace or the original type. Layer: below everything.

use std::error::Error as StdError;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A failure in words: what was recorded of an error that could not be stored as itself, or what the library
/// itself has to say about a call that ended without a value.
///
/// An error type takes part by `impl From<durable::Failure>`; `anyhow::Error`, `eyre::Report`,
/// `Box<dyn Error + Send + Sync>` and `String` already do. The source chain is kept as text.
///
/// ```
/// use durable::Failure;
///
/// let error: anyhow::Error = Failure::permanent("card 17 is blocked").into();
/// assert_eq!(error.to_string(), "card 17 is blocked");
/// assert!(error.downcast_ref::<Failure>().is_some_and(Failure::is_permanent));
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    message: String,
    #[serde(default)]
    kind: FailureKind,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    permanent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Box<Failure>>,
}

/// Where a [`Failure`] came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The user's own error.
    #[default]
    Error,
    /// A step or workflow panicked.
    Panic,
    /// A step attempt ran longer than its `timeout`.
    Timeout,
    /// A value could not be recorded: too large, too deep, or it does not read back.
    Payload,
    /// Another workflow ended without a result that could be handed on.
    Workflow,
    /// The call is not possible where it was made.
    Unsupported,
}

/// Errors of one chain that are kept apart: each is a level of JSON, which reads back 127.
const MAX_CHAIN: usize = 100;

impl Failure {
    /// A failure that retrying may cure: what a step returns to be tried again, if it has attempts left.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: FailureKind::Error, permanent: false, source: None }
    }

    /// A failure that retrying cannot cure: the step stops at once, whatever attempts it has left.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { permanent: true, ..Self::new(message) }
    }

    /// The display chain of an error, sources included: as many as read back, the rest is joined to the last.
    pub fn from_error(error: &(dyn StdError + 'static)) -> Self {
        let chain = std::iter::successors(Some(error), |&error| error.source());
        let mut links: Vec<Self> = chain
            .map(|error| match error.downcast_ref::<Self>() {
                Some(failure) => Self { source: None, message: failure.message.clone(), ..*failure },
                None => Self::new(error.to_string()),
            })
            .collect();
        let rest: Vec<_> = links.iter().skip(MAX_CHAIN).map(|link| link.message.as_str()).collect();
        if !rest.is_empty() {
            let permanent = links.iter().skip(MAX_CHAIN).any(Self::is_permanent);
            let last = Self { permanent, ..Self::new(rest.join(": ")) };
            links.truncate(MAX_CHAIN);
            links.push(last);
        }
        let inwards = links.into_iter().rev().reduce(|source, error| Self {
            permanent: error.permanent || source.permanent,
            source: Some(Box::new(source)),
            ..error
        });
        inwards.unwrap_or_else(|| Self::new(error.to_string()))
    }

    /// The same failure with its kind stated.
    pub(crate) fn with_kind(mut self, kind: FailureKind) -> Self {
        self.kind = kind;
        self
    }

    /// Where the failure came from.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// True if retrying cannot cure it.
    pub fn is_permanent(&self) -> bool {
        self.permanent
    }

    /// The failure's own message, without its sources.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Message and sources on one line, joined by `: `; what the column `error_message` shows.
    pub fn chain(&self) -> String {
        let mut line = self.message.clone();
        let mut next = self.source.as_deref();
        while let Some(failure) = next {
            line.push_str(": ");
            line.push_str(&failure.message);
            next = failure.source.as_deref();
        }
        line
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { f.write_str(&self.chain()) } else { f.write_str(&self.message) }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain())
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        failure.chain()
    }
}

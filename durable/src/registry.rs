//! The workflows of a program, found without a list.
//!
//! Guarantees that name and version are unique. A crate that only holds workflows must be named by the program
//! (`use my_workflows as _;`), or the linker leaves it out. Layer: above the workflow.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::{Codec, Outcome, OutcomeCodec};
use crate::error::{Error, ErrorKind, Failure, FailureKind};
use crate::ids::check_key;
use crate::model::{DEFAULT_QUEUE, StoredInput};
use crate::workflow::{Limits, RetryPolicy};

/// A workflow as a type; implemented by `#[workflow]`.
pub trait Workflow: Sized + Send + Sync + 'static {
    /// The recorded name.
    const NAME: &'static str;
    /// The version of the code; runs go on with the version they began with.
    const VERSION: u32;
    /// The queue of runs that are started without one; `default` if `None`.
    const QUEUE: Option<&'static str> = None;
    /// How often and when a run that failed is tried again; never unless set.
    const RETRY: RetryPolicy = RetryPolicy::NONE;
    /// The arguments, one field each.
    type Input: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What the body returns.
    type Output: Send + 'static;

    #[doc(hidden)]
    fn body(input: Self::Input) -> impl Future<Output = Self::Output> + Send + 'static;
    #[doc(hidden)]
    fn outcome() -> OutcomeCodec<Self::Output>;
    #[doc(hidden)]
    fn codec() -> Codec;
}

/// What a body ends with: its encoded outcome, or why there is none.
pub(crate) type BodyFuture = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + Send>>;

/// A workflow in the program's registry.
#[doc(hidden)]
#[derive(Debug)]
pub struct WorkflowEntry {
    pub(crate) name: &'static str,
    pub(crate) version: u32,
    file: &'static str,
    line: u32,
    queue: Option<&'static str>,
    /// How often a failed run is tried again.
    pub(crate) retry: RetryPolicy,
    pub(crate) begin: fn(StoredInput, Limits) -> Result<BodyFuture, String>,
}

inventory::collect!(WorkflowEntry);

impl WorkflowEntry {
    /// The entry of `W`, defined at this place.
    #[must_use]
    pub const fn new<W: Workflow>(file: &'static str, line: u32) -> Self {
        Self { name: W::NAME, version: W::VERSION, file, line, queue: W::QUEUE, retry: W::RETRY, begin: begin::<W> }
    }
}

/// Decodes the input and makes the body's future.
fn begin<W: Workflow>(input: StoredInput, limits: Limits) -> Result<BodyFuture, String> {
    let input: W::Input = input.payload.decode().map_err(|error| error.to_string())?;
    Ok(Box::pin(async move {
        let output = W::body(input).await;
        encode::<W>(&output, limits)
    }))
}

fn encode<W: Workflow>(output: &W::Output, limits: Limits) -> Result<Outcome, Failure> {
    let codec = W::outcome();
    let refuse = |why: String| {
        Failure::permanent(format!("the result of workflow `{}` {why}", W::NAME)).with_kind(FailureKind::Payload)
    };
    let outcome = match (codec.encode)(output) {
        Ok(outcome) => outcome,
        // An error that can't be stored as itself is still an error, and its words are kept.
        Err(error) => match (codec.error)(output) {
            Some(view) => Outcome::failure(&view.failure),
            None => return Err(refuse(format!("can't be recorded: {error}"))),
        },
    };
    let size = outcome.payload().size();
    if size > limits.payload_max {
        return Err(refuse(format!(
            "has {size} bytes, the limit is {}: store it elsewhere and return a reference",
            limits.payload_max
        )));
    }
    if let Outcome::Done(_) = outcome {
        (codec.decode)(&outcome).map_err(|error| refuse(format!("does not read back as it was written: {error}")))?;
    }
    Ok(outcome)
}

/// The workflows of this program by name and version.
pub(crate) struct Registry {
    entries: HashMap<(&'static str, i32), &'static WorkflowEntry>,
    /// What claims ask for.
    pub(crate) served: Arc<[(&'static str, i32)]>,
    /// Names, versions and queues.
    pub(crate) workflows: Vec<(&'static str, i32, Arc<str>)>,
}

impl Registry {
    /// # Errors
    /// [`ErrorKind::Configuration`] if two workflows have the same name and version; both places are named.
    pub(crate) fn collect() -> Result<Self, Error> {
        let mut entries: HashMap<(&'static str, i32), &'static WorkflowEntry> = HashMap::new();
        for entry in inventory::iter::<WorkflowEntry> {
            let key = (entry.name, i32::try_from(entry.version).unwrap_or(i32::MAX));
            if let Some(other) = entries.insert(key, entry) {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    format!(
                        "two workflows are named `{}` with version {}: at {}:{} and at {}:{}; give one another name with `#[workflow(name = \"…\")]`",
                        entry.name, entry.version, other.file, other.line, entry.file, entry.line
                    ),
                ));
            }
        }
        let mut served: Vec<_> = entries.keys().copied().collect();
        served.sort_unstable();
        let mut workflows = Vec::with_capacity(served.len());
        for key in &served {
            let queue = entries[key].queue.unwrap_or(DEFAULT_QUEUE);
            check_key(&format!("queue of workflow `{}`", key.0), queue)?;
            workflows.push((key.0, key.1, queue.into()));
        }
        Ok(Self { entries, served: served.into(), workflows })
    }

    pub(crate) fn get(&self, name: &str, version: i32) -> Option<&'static WorkflowEntry> {
        // The map's keys live as long as the program; the name asked for need not.
        self.served.iter().find(|served| **served == (name, version)).and_then(|key| self.entries.get(key)).copied()
    }
}

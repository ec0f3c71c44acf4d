//! A client from outside: it reaches a database and runs nothing. Layer: client.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;

use super::handle::WorkflowHandle;
use super::many::start_all;
use super::options::{Options, setters};
use super::start::{Start, encode_input, enqueue};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind};
use crate::executor::Hub;
use crate::model::DEFAULT_QUEUE;
use crate::registry::Workflow;

/// Reaches the workflows of a database and runs none: for a web server that submits, or a tool that looks after queues.
/// Cheap to clone. Of a runtime by [`Runtime::client`](crate::Runtime::client), of a database by
/// [`connect`](Self::connect) or [`Builder::client`](crate::Builder::client).
///
/// ```
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// let client = durable::Client::connect("sqlite::memory:").await?;
/// client.set_queue("mail", durable::QueueLimits::new().concurrency(5)).await?;
/// let id = client.enqueue("send_mail", serde_json::json!({ "to": "ada@example.com" })).queue("mail").await?;
/// assert_eq!(client.queue("mail").await?.map(|queue| queue.pending), Some(1));
/// # drop(id);
/// # Ok::<_, durable::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Client {
    pub(super) hub: Arc<Hub>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn of(hub: Arc<Hub>) -> Self {
        Self { hub }
    }

    /// Reaches a database with the settings of a fresh [`Builder`](crate::Builder).
    ///
    /// # Errors
    /// As [`Builder::build`](crate::Builder::build).
    pub async fn connect(url: impl Into<String>) -> Result<Self, Error> {
        crate::Builder::new().url(url).client().await
    }

    /// Starts a workflow that this program knows, for an executor to run.
    ///
    /// # Errors
    /// As awaiting the start.
    pub async fn start<W: Workflow>(&self, start: Start<W>) -> Result<WorkflowHandle<W>, Error> {
        let mut runs = start_all(&self.hub, vec![start]).await?;
        runs.pop().ok_or_else(|| Error::new(ErrorKind::Undecodable, "the enqueue had no answer"))
    }

    /// Starts many workflows in one commit: see [`start_many`](crate::start_many).
    ///
    /// # Errors
    /// As for one start.
    pub async fn start_many<W: Workflow>(
        &self,
        starts: impl IntoIterator<Item = Start<W>>,
    ) -> Result<Vec<WorkflowHandle<W>>, Error> {
        start_all(&self.hub, starts.into_iter().collect()).await
    }

    /// Starts a workflow by its name, for a program that does not have its code. The input is an object keyed by the names
    /// of the arguments; whether it fits is found out by the executor that runs it.
    pub fn enqueue(&self, name: impl Into<String>, input: serde_json::Value) -> Enqueue {
        Enqueue { hub: Arc::clone(&self.hub), name: name.into(), version: 1, input, options: Options::default() }
    }

    /// A handle on a run by its id; whether the run exists is found out when it is asked for something.
    #[must_use]
    pub fn handle<W: Workflow>(&self, id: impl Into<String>) -> WorkflowHandle<W> {
        WorkflowHandle::new(Arc::clone(&self.hub), id.into().into())
    }
}

/// A workflow by its name, about to be started: set options, then await it for the id of its run.
#[must_use = "a workflow is started by awaiting this"]
pub struct Enqueue {
    hub: Arc<Hub>,
    name: String,
    version: u32,
    input: serde_json::Value,
    options: Options,
}

impl Enqueue {
    /// The version of the workflow's code. Default 1.
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    setters!();
}

impl IntoFuture for Enqueue {
    type Output = Result<String, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            crate::ids::check_key("workflow name", &self.name)?;
            if !self.input.is_object() {
                return Err(Error::new(
                    ErrorKind::InvalidPayload,
                    format!(
                        "the input of workflow `{}` is no JSON object keyed by the names of its arguments",
                        self.name
                    ),
                ));
            }
            let Ok(version) = i32::try_from(self.version) else {
                return Err(Error::new(
                    ErrorKind::InvalidOption,
                    format!("version {} is too large: the most is {}", self.version, i32::MAX),
                ));
            };
            let input = encode_input(&self.name, Codec::Json, self.hub.settings.limits, &self.input)?;
            let row = self.options.row(&self.name, version, DEFAULT_QUEUE, input)?;
            let ids = enqueue(&self.hub, vec![row]).await?;
            Ok(ids.into_iter().map(|id| id.to_string()).collect())
        })
    }
}

//! `llm_pipeline::start(doc).id("doc-42").await`. Layer: client.

use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;

use super::engine_at;
use super::handle::WorkflowHandle;
use crate::codec::Payload;
use crate::error::{Error, ErrorKind};
use crate::executor::{Engine, StartRequest};
use crate::ids::check_workflow_id;
use crate::registry::Workflow;
use crate::workflow::{Scope, scope};

/// A workflow about to be started: set options, then await it.
///
/// When it resolves to `Ok`, the workflow is recorded and is not lost any more; it runs in this process if there is
/// room, else wherever there is. Dropping the future does not cancel what was begun.
#[must_use = "a workflow is started by awaiting this"]
pub struct Start<W: Workflow> {
    input: W::Input,
    id: Option<String>,
}

impl<W: Workflow> Start<W> {
    #[doc(hidden)]
    pub fn new(input: W::Input) -> Self {
        Self { input, id: None }
    }

    /// The workflow's id: the same id twice is the same run. Without one it gets a fresh UUID.
    ///
    /// # Errors
    /// Awaiting fails with [`ErrorKind::InvalidId`] if it is empty, blank, longer than 512 bytes or has control
    /// characters, and with [`ErrorKind::AlreadyExists`] if it belongs to a run of another workflow or input.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

impl<W: Workflow> IntoFuture for Start<W> {
    type Output = Result<WorkflowHandle<W>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    #[track_caller]
    fn into_future(self) -> Self::IntoFuture {
        if let Some(Scope::Body { .. } | Scope::Step { .. }) = scope() {
            return Box::pin(async { Err(nested(W::NAME)) });
        }
        let site = Location::caller();
        Box::pin(async move {
            let engine = engine_at("starting a workflow", site);
            let id: Arc<str> = match self.id {
                Some(id) => id.into(),
                None => uuid::Uuid::now_v7().to_string().into(),
            };
            record::<W>(&engine, &id, &self.input).await?;
            Ok(WorkflowHandle::new(engine, id))
        })
    }
}

/// Records a workflow.
pub(super) async fn record<W: Workflow>(engine: &Arc<Engine>, id: &Arc<str>, input: &W::Input) -> Result<(), Error> {
    check_workflow_id(id)?;
    let request = StartRequest {
        workflow_id: Arc::clone(id),
        name: W::NAME,
        version: i32::try_from(W::VERSION).unwrap_or(i32::MAX),
        input: encode::<W>(engine, input)?,
    };
    engine.start(request).await?;
    Ok(())
}

/// The encoded input; what does not read back is refused before anything is written.
fn encode<W: Workflow>(engine: &Engine, input: &W::Input) -> Result<Payload, Error> {
    let refuse =
        |why: String| Error::new(ErrorKind::InvalidPayload, format!("the input of workflow `{}` {why}", W::NAME));
    let payload = W::codec().encode(input).map_err(|error| refuse(format!("can't be recorded: {error}")))?;
    let (size, limits) = (payload.size(), engine.settings.limits);
    if size > limits.payload_max {
        return Err(refuse(format!(
            "has {size} bytes, the limit is {}: store it elsewhere and pass a reference, or raise the limit",
            limits.payload_max
        )));
    }
    if size > limits.payload_warn {
        tracing::warn!(workflow = W::NAME, size, "the input of a workflow is large");
    }
    payload.decode::<W::Input>().map_err(|error| refuse(format!("does not read back as it was written: {error}")))?;
    Ok(payload)
}

/// Children are not possible yet.
pub(super) fn nested(name: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "workflow `{name}` was called inside a workflow: children are not supported yet; make it a step or an ordinary function"
        ),
    )
}

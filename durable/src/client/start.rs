//! `llm_pipeline::start(doc).id("doc-42").await`. Layer: client.

use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::engine_at;
use super::handle::WorkflowHandle;
use super::options::{OnDuplicate, Options, refuse_cycles, setters};
use crate::codec::{Codec, Payload};
use crate::error::{Error, ErrorKind};
use crate::executor::{Engine, Hub, StartRequest, same_workflow};
use crate::ids::{check_key, check_workflow_id};
use crate::model::{DEFAULT_QUEUE, EnqueueRow, Submitted};
use crate::registry::Workflow;
use crate::workflow::{Limits, Scope, scope};

/// A workflow about to be started: set options, then await it.
///
/// When it resolves to `Ok`, the workflow is recorded and is not lost any more. Without options it runs in this process
/// if there is room, else wherever there is; with a queue, a due time or prerequisites it runs where it is claimed.
/// Dropping the future does not cancel what was begun.
#[must_use = "a workflow is started by awaiting this"]
pub struct Start<W: Workflow> {
    pub(super) input: W::Input,
    pub(super) options: Options,
}

impl<W: Workflow> Start<W> {
    #[doc(hidden)]
    pub fn new(input: W::Input) -> Self {
        Self { input, options: Options::default() }
    }

    setters!();

    /// The row that records it.
    pub(super) fn row(self, limits: Limits) -> Result<(EnqueueRow, OnDuplicate), Error> {
        let input = encode::<W>(limits, &self.input)?;
        self.options.row(W::NAME, version::<W>(), W::QUEUE.unwrap_or(DEFAULT_QUEUE), input)
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
            if self.options.is_plain() {
                let queue = self.options.queue.as_deref().or(W::QUEUE).filter(|queue| *queue != DEFAULT_QUEUE);
                let queue: Option<Arc<str>> = queue.map(Into::into);
                if let Some(queue) = &queue {
                    check_key("queue", queue)?;
                    engine.hub.check_queue(queue).await?;
                }
                let id: Arc<str> = match self.options.id {
                    Some(id) => id.into(),
                    None => uuid::Uuid::now_v7().to_string().into(),
                };
                record::<W>(&engine, &id, queue, &self.input).await?;
                return Ok(WorkflowHandle::new(Arc::clone(&engine.hub), id));
            }
            let row = self.row(engine.settings.limits)?;
            let mut ids = enqueue(&engine.hub, vec![row]).await?.into_iter();
            let id = ids.next().ok_or_else(|| Error::new(ErrorKind::Undecodable, "the enqueue had no answer"))?;
            Ok(WorkflowHandle::new(Arc::clone(&engine.hub), id))
        })
    }
}

/// Records workflows for whoever claims them, all in one commit; gives the ids of their runs.
pub(super) async fn enqueue(hub: &Arc<Hub>, rows: Vec<(EnqueueRow, OnDuplicate)>) -> Result<Vec<Arc<str>>, Error> {
    let (rows, on_duplicate): (Vec<EnqueueRow>, Vec<OnDuplicate>) = rows.into_iter().unzip();
    for row in &rows {
        hub.check_queue(&row.queue).await?;
    }
    refuse_cycles(&rows)?;
    // What is asked only of a row whose id is taken.
    let known: Vec<(Arc<str>, Arc<str>, Payload)> =
        rows.iter().map(|row| (Arc::clone(&row.workflow_id), Arc::clone(&row.name), row.input.clone())).collect();
    let dedup_keys: Vec<Option<String>> = rows.iter().map(|row| row.dedup_key.clone()).collect();
    let answers = hub.submit(rows).await?;
    let mut ids = Vec::with_capacity(known.len());
    for (((id, name, input), answer), (on_duplicate, key)) in
        known.into_iter().zip(answers).zip(on_duplicate.into_iter().zip(dedup_keys))
    {
        ids.push(match answer {
            Submitted::New => id,
            Submitted::Exists => {
                same_workflow(hub, &id, &name, &input).await?;
                id
            }
            Submitted::Duplicate(existing) if on_duplicate == OnDuplicate::ReturnExisting => existing.into(),
            Submitted::Duplicate(existing) => {
                return Err(Error::new(
                    ErrorKind::Duplicate,
                    format!(
                        "the run `{existing}` of workflow `{name}` has the dedup key `{}` and has not ended",
                        key.unwrap_or_default()
                    ),
                ));
            }
        });
    }
    Ok(ids)
}

/// Records a workflow, to run here if there is room.
pub(super) async fn record<W: Workflow>(
    engine: &Arc<Engine>,
    id: &Arc<str>,
    queue: Option<Arc<str>>,
    input: &W::Input,
) -> Result<(), Error> {
    check_workflow_id(id)?;
    let request = StartRequest {
        workflow_id: Arc::clone(id),
        name: W::NAME,
        version: version::<W>(),
        queue,
        input: encode::<W>(engine.settings.limits, input)?,
    };
    engine.start(request).await
}

fn version<W: Workflow>() -> i32 {
    i32::try_from(W::VERSION).unwrap_or(i32::MAX)
}

fn encode<W: Workflow>(limits: Limits, input: &W::Input) -> Result<Payload, Error> {
    encode_input(W::NAME, W::codec(), limits, input)
}

/// The encoded input; what does not read back is refused before anything is written.
pub(super) fn encode_input<T: Serialize + DeserializeOwned>(
    name: &str,
    codec: Codec,
    limits: Limits,
    input: &T,
) -> Result<Payload, Error> {
    let refuse = |why: String| Error::new(ErrorKind::InvalidPayload, format!("the input of workflow `{name}` {why}"));
    let payload = codec.encode(input).map_err(|error| refuse(format!("can't be recorded: {error}")))?;
    let (size, limit) = (payload.size(), limits.payload_max);
    if size > limit {
        return Err(refuse(format!(
            "has {size} bytes, the limit is {limit}: store it elsewhere and pass a reference, or raise the limit"
        )));
    }
    if size > limits.payload_warn {
        tracing::warn!(workflow = name, size, "the input of a workflow is large");
    }
    payload.decode::<T>().map_err(|error| refuse(format!("does not read back as it was written: {error}")))?;
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

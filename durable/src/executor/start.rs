//! Starts: recording a workflow, and running it here if there is room. Layer: executor.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::driver::{Job, drive};
use super::engine::Engine;
use super::hub::Hub;
use crate::codec::{Data, Payload};
use crate::error::{Error, ErrorKind};
use crate::model::{DEFAULT_QUEUE, Op, StartOp, StoredInput};
use crate::replay::History;
use crate::store::{StoreError, StoreErrorKind};
use crate::writer::{Pending, Verdict};

/// How often a start that waits looks whether it waits in vain.
const TROUBLE_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

fn not_recorded(id: &str, error: StoreError) -> Error {
    let error = Error::from(error);
    let again = "nothing is lost: call again with the same id";
    Error::new(error.kind(), format!("workflow `{id}` could not be recorded: {error}; {again}")).with_source(error)
}

/// A workflow to record.
#[derive(Clone)]
pub(crate) struct StartRequest {
    pub(crate) workflow_id: Arc<str>,
    pub(crate) name: &'static str,
    pub(crate) version: i32,
    /// `None` for `default`.
    pub(crate) queue: Option<Arc<str>>,
    pub(crate) input: Payload,
}

impl Engine {
    /// Records a workflow, and runs it here if there is room. Goes on to its end even if the caller gives up.
    pub(crate) async fn start(self: &Arc<Self>, request: StartRequest) -> Result<(), Error> {
        let (told, answer) = oneshot::channel();
        let engine = Arc::clone(self);
        let (id, identity) = (Arc::clone(&request.workflow_id), self.identity());
        let give_up_at = Instant::now() + self.settings.start_timeout;
        self.handle.spawn(async move { engine.record_and_run(request, told).await });
        let mut answer = answer;
        loop {
            if let Ok(answer) = tokio::time::timeout(TROUBLE_EVERY, &mut answer).await {
                return answer.unwrap_or_else(|_| Err(shutting_down()));
            }
            // It may be queued behind records that wait as long as it takes: the caller need not.
            let trouble = identity.health.trouble();
            if trouble.as_ref().is_some_and(|error| !error.is_unanswered()) || Instant::now() >= give_up_at {
                let error = trouble.unwrap_or_else(|| {
                    StoreError::new(StoreErrorKind::Unavailable, "the database did not answer in time")
                });
                return Err(not_recorded(&id, error));
            }
        }
    }

    async fn record_and_run(self: Arc<Self>, request: StartRequest, told: oneshot::Sender<Result<(), Error>>) {
        let starting = self.running.starting(&request.workflow_id);
        if self.is_closing() {
            let _ = told.send(Err(shutting_down()));
            return;
        }
        let entry = self.registry.get(request.name, request.version);
        let queue = request.queue.as_deref().unwrap_or(DEFAULT_QUEUE);
        let mut slot: Option<OwnedSemaphorePermit> = match self.may_begin(queue) {
            true => Arc::clone(&self.slots).try_acquire_owned().ok(),
            false => None,
        };
        // Made once, so that a repeated start is recognized as the same.
        let (seed, write_id) = (fastrand::i64(..), fastrand::i64(..));
        let give_up_at = Instant::now() + self.settings.start_timeout;
        let (verdict, identity) = loop {
            let identity = self.identity();
            if slot.is_some() && (entry.is_none() || !identity.may_poll()) {
                slot = None;
            }
            let op = Op::Start(StartOp {
                workflow_id: Arc::clone(&request.workflow_id),
                name: request.name,
                version: request.version,
                queue: request.queue.clone(),
                run_here: slot.is_some(),
                seed,
                input: request.input.clone(),
                write_id,
            });
            let (reply, verdict) = oneshot::channel();
            let pending = Pending { op, on_fence: None, reply, give_up_at: Some(give_up_at) };
            if let Some(lead) = identity.writer(&request.workflow_id).submit(pending) {
                lead.await;
            }
            match verdict.await {
                // Declared dead meanwhile: the next incarnation records it.
                Ok(Verdict::Fenced(_)) if !self.is_closing() && Instant::now() < give_up_at => {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
                // Not recorded: it is to be claimed like all other work of its queue.
                Ok(Verdict::Limited) => {
                    self.note_limited(queue);
                    slot = None;
                }
                verdict => break (verdict, identity),
            }
        };
        match verdict {
            Ok(Verdict::Written) => {
                let _ = told.send(Ok(()));
                let (Some(slot), Some(entry)) = (slot, entry) else {
                    self.backlog.store(true, std::sync::atomic::Ordering::SeqCst);
                    self.hub.wake(request.queue.as_deref().unwrap_or(DEFAULT_QUEUE));
                    return;
                };
                let job = Job {
                    workflow_id: request.workflow_id,
                    entry,
                    epoch: 1,
                    seed,
                    attempt: 1,
                    claimed: false,
                    input: Ok(StoredInput { payload: request.input }),
                    history: History::default(),
                    recovered: false,
                    identity,
                    slot,
                };
                let run = drive(Arc::clone(&self), job);
                // It counts as running from its first poll on.
                let mut run = std::pin::pin!(run);
                let first = futures_util::future::poll_immediate(&mut run).await;
                drop(starting);
                if first.is_none() {
                    run.await;
                }
            }
            Ok(Verdict::Exists) => {
                drop(slot);
                let StartRequest { workflow_id, name, input, .. } = &request;
                let _ = told.send(same_workflow(&self.hub, workflow_id, name, input).await);
            }
            Ok(Verdict::Refused(error)) => {
                let _ = told.send(Err(not_recorded(&request.workflow_id, error)));
            }
            Ok(_) | Err(_) => {
                let _ = told.send(Err(shutting_down()));
            }
        }
    }
}

/// The same id twice is the same run, if name and input are the same.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if they are not.
pub(crate) async fn same_workflow(hub: &Hub, id: &str, name: &str, input: &Payload) -> Result<(), Error> {
    let state = hub.ask(|| hub.store.workflow(id)).await?;
    if let Some(state) = state.filter(|state| state.name != name) {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("workflow id `{id}` belongs to a run of `{}`, not of `{name}`: use another id", state.name),
        ));
    }
    match hub.ask(|| hub.store.input(id)).await? {
        Some(stored) if !same_value(&stored.payload, input) => Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("workflow id `{id}` belongs to a run of `{name}` with another input: use another id"),
        )),
        _ => Ok(()),
    }
}

/// The order of keys in an object is no difference.
fn same_value(a: &Payload, b: &Payload) -> bool {
    if a == b {
        return true;
    }
    match (&a.data, &b.data) {
        (Data::Text(a), Data::Text(b)) => {
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text);
            matches!((read(a), read(b)), (Ok(a), Ok(b)) if a == b)
        }
        _ => false,
    }
}

fn shutting_down() -> Error {
    Error::new(ErrorKind::ShuttingDown, "the runtime is shutting down and takes no new workflows")
}

//! A handle on a run, from any process, also after a restart. Layer: client.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::engine;
use super::requeue::{missing, resumed};
use crate::codec::Outcome;
use crate::error::{Error, ErrorKind};
use crate::executor::{Ending, Hub};
use crate::model::{WorkflowState, WorkflowStatus};
use crate::registry::Workflow;
use crate::store::workflow::CancelAnswer;
use crate::store::{Result as StoreResult, Store};
use crate::workflow::StopReason;

/// A run of the workflow `W`. Cheap to make: it holds the id, and asks the database when it is asked.
pub struct WorkflowHandle<W: Workflow> {
    hub: Arc<Hub>,
    id: Arc<str>,
    workflow: PhantomData<fn() -> W>,
}

/// A handle on a run by its id; whether the run exists is found out when it is asked for something.
///
/// # Panics
/// Without a runtime.
#[track_caller]
#[must_use]
pub fn handle<W: Workflow>(id: impl Into<String>) -> WorkflowHandle<W> {
    WorkflowHandle::new(Arc::clone(&engine("`durable::handle()`").hub), id.into().into())
}

impl<W: Workflow> Clone for WorkflowHandle<W> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.hub), Arc::clone(&self.id))
    }
}

impl<W: Workflow> fmt::Debug for WorkflowHandle<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkflowHandle<{}>({:?})", W::NAME, self.id)
    }
}

impl<W: Workflow> WorkflowHandle<W> {
    pub(crate) fn new(hub: Arc<Hub>, id: Arc<str>) -> Self {
        Self { hub, id, workflow: PhantomData }
    }

    /// The workflow's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where the run is in its life.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such run; what the database says otherwise.
    pub async fn status(&self) -> Result<WorkflowStatus, Error> {
        Ok(self.state().await?.status)
    }

    /// Waits for the end, and gives what the workflow returned. In this process it is told at once; the end of a run
    /// elsewhere is looked for every `poll` (1 s unless set otherwise), sooner at first.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`], [`ErrorKind::Dead`] and [`ErrorKind::Blocked`] for a run that ended or stopped that
    /// way, [`ErrorKind::Failed`] for a failure that the return type can't express, [`ErrorKind::NotFound`] if there
    /// is no such run, [`ErrorKind::Undecodable`] if the result does not read as the type of today.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn result(&self) -> Result<W::Output, Error> {
        self.result_from(None, LastError::IsDead).await
    }

    /// Waits for the end; `told` was registered before the start, so that nothing has to be asked.
    pub(super) async fn result_from(
        &self,
        told: Option<oneshot::Receiver<Ending>>,
        last_error: LastError,
    ) -> Result<W::Output, Error> {
        let mut ask = told.is_none();
        let _tidy = Tidy(self);
        let mut told = told.unwrap_or_else(|| self.hub.endings.wait(&self.id));
        loop {
            // Where it runs here its end is told, and the database need not be asked.
            if ask && !self.hub.runs_here(&self.id) {
                let state = self.state().await?;
                if state.status.is_settled() {
                    return self.read(&state, last_error).await;
                }
            }
            // The end elsewhere is looked for by the engine, once for all who wait.
            ask = match tokio::time::timeout(Duration::from_secs(1), &mut told).await {
                Ok(Ok(Ending { outcome: Some(outcome), status }))
                    if status != WorkflowStatus::Dead || last_error == LastError::IsResult =>
                {
                    return self.decode(&outcome);
                }
                // Told without an outcome, or by nobody: the row says more.
                Ok(_) => {
                    told = self.hub.endings.wait(&self.id);
                    true
                }
                Err(_) => false,
            };
            if self.hub.is_closing() {
                return Err(Error::new(
                    ErrorKind::ShuttingDown,
                    format!(
                        "the runtime shut down before workflow `{}` ended; it goes on with the next `recover()`",
                        self.id
                    ),
                ));
            }
        }
    }

    /// Cancels the run: no step that starts after this is recorded. Steps whose body runs are told
    /// ([`cancelled`](crate::cancelled)) and have `cancel_grace` to end; what they return is still recorded.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyEnded`] if it has ended before, [`ErrorKind::NotFound`] if there is no such run.
    pub async fn cancel(&self) -> Result<(), Error> {
        let write_id = fastrand::i64(..);
        let answer = self.ask(move |store, id| async move { store.cancel(&id, "cancelled", write_id).await }).await?;
        match answer {
            CancelAnswer::Cancelled { epoch, at } => {
                if !self.hub.cancel_here(&self.id, epoch, at) {
                    self.hub.endings.tell(&self.id, &Ending { status: WorkflowStatus::Cancelled, outcome: None });
                }
                Ok(())
            }
            CancelAnswer::Ended(state) => Err(Error::new(
                ErrorKind::AlreadyEnded,
                format!("workflow `{}` can't be cancelled: it is {} already", self.id, state.status),
            )),
            CancelAnswer::Missing => Err(self.missing()),
        }
    }

    /// Gives a cancelled, failed, dead or blocked run a new workflow attempt: it is pending again with all counts at
    /// zero. Recorded steps stay; an error that ended the run is set aside, and its step runs again.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyEnded`] if it is done, and [`ErrorKind::Unsupported`] if it is not stopped at all;
    /// [`ErrorKind::NotFound`] if there is no such run, [`ErrorKind::Duplicate`] if another unfinished run has its dedup
    /// key by now.
    pub async fn resume(&self) -> Result<(), Error> {
        let write_id = fastrand::i64(..);
        // Looked at before: once it is pending, the run that is found may be that of the new attempt.
        let former = self.hub.run_of(&self.id);
        let answer = self.ask(move |store, id| async move { store.resume(&id, write_id).await }).await?;
        resumed(&self.id, answer)?;
        // A body in its grace belongs to the attempt before.
        if let Some(former) = former {
            former.stop.request(StopReason::Fenced);
        }
        self.hub.wake("");
        Ok(())
    }

    /// A change of this run.
    async fn ask<T, F, Fut>(&self, question: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Fn(Arc<dyn Store>, Arc<str>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let (store, id) = (Arc::clone(&self.hub.store), Arc::clone(&self.id));
        self.hub.change(move || question(Arc::clone(&store), Arc::clone(&id))).await
    }

    async fn state(&self) -> Result<WorkflowState, Error> {
        let mut tries = 0;
        loop {
            match self.hub.store.workflow(&self.id).await {
                Ok(Some(state)) if state.name == W::NAME => return Ok(state),
                Ok(Some(state)) => {
                    return Err(Error::new(
                        ErrorKind::NotFound,
                        format!("workflow id `{}` belongs to a run of `{}`, not of `{}`", self.id, state.name, W::NAME),
                    ));
                }
                Ok(None) => return Err(self.missing()),
                // Reads are free to repeat.
                Err(error) if error.is_unanswered() && tries < 5 => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(50 << tries)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn read(&self, state: &WorkflowState, last_error: LastError) -> Result<W::Output, Error> {
        let id = &self.id;
        let why = state.error_message.clone().or_else(|| state.reason.clone()).unwrap_or_default();
        match state.status {
            WorkflowStatus::Cancelled => {
                Err(Error::new(ErrorKind::Cancelled, format!("workflow `{id}` was cancelled: {why}")))
            }
            WorkflowStatus::Dead => {
                if last_error == LastError::IsResult
                    && let Some(outcome) = self.hub.ask(|| self.hub.store.result(id)).await?
                {
                    return self.decode(&outcome);
                }
                Err(Error::new(ErrorKind::Dead, format!("workflow `{id}` is dead: {why}")))
            }
            WorkflowStatus::Blocked => {
                Err(Error::new(ErrorKind::Blocked, format!("workflow `{id}` is blocked: {why}")))
            }
            _ => match self.hub.ask(|| self.hub.store.result(id)).await? {
                Some(outcome) => self.decode(&outcome),
                None => Err(Error::new(
                    ErrorKind::Undecodable,
                    format!(
                        "workflow `{id}` is {} without a result: the row in workflow_payloads is gone",
                        state.status
                    ),
                )),
            },
        }
    }

    fn decode(&self, outcome: &Outcome) -> Result<W::Output, Error> {
        let codec = W::outcome();
        (codec.decode)(outcome).map_err(|error| match outcome {
            Outcome::Error { message, .. } if codec.from_failure.is_none() => {
                Error::new(ErrorKind::Failed, format!("workflow `{}` failed: {message}", self.id))
            }
            _ => Error::new(
                ErrorKind::Undecodable,
                format!("the result of workflow `{}` does not read as the type of today: {error}", self.id),
            ),
        })
    }

    fn missing(&self) -> Error {
        missing(&self.id)
    }
}

/// What the error of the last attempt is to whoever waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LastError {
    /// The reason of a dead letter.
    IsDead,
    /// What the workflow returned, as for a plain call of a function.
    IsResult,
}

/// Takes a waiter that gave up off the list.
struct Tidy<'a, W: Workflow>(&'a WorkflowHandle<W>);

impl<W: Workflow> Drop for Tidy<'_, W> {
    fn drop(&mut self) {
        // Dropped after the receiver, which is closed by now.
        self.0.hub.endings.tidy(&self.0.id);
    }
}

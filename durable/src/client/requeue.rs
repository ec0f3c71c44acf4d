//! Requeueing: a new workflow attempt for what stopped. Layer: client.

use super::outside::Client;
use crate::error::{Error, ErrorKind};
use crate::model::WorkflowStatus;
use crate::store::workflow::{ResumeAnswer, Stopped};

/// Ids that one question asks for.
const PAGE: i64 = 500;

/// Which workflows to requeue: one by its id, or all that a filter finds.
///
/// ```
/// use durable::Requeue;
/// let one = Requeue::id("order-7");
/// let many = Requeue::dead().name("send_mail").queue("mail").tag("batch-9");
/// ```
#[derive(Clone, Debug)]
pub struct Requeue {
    id: Option<String>,
    which: Stopped,
}

impl Requeue {
    /// The workflow with this id, if it is dead, failed, cancelled or blocked.
    pub fn id(id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), which: Stopped::default() }
    }

    /// Every dead letter.
    #[must_use]
    pub fn dead() -> Self {
        Self::with(WorkflowStatus::Dead)
    }

    /// Every failed workflow.
    #[must_use]
    pub fn failed() -> Self {
        Self::with(WorkflowStatus::Failed)
    }

    /// Every cancelled workflow.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::with(WorkflowStatus::Cancelled)
    }

    /// Every blocked workflow.
    #[must_use]
    pub fn blocked() -> Self {
        Self::with(WorkflowStatus::Blocked)
    }

    fn with(status: WorkflowStatus) -> Self {
        Self { id: None, which: Stopped { statuses: vec![status], ..Stopped::default() } }
    }

    /// Of those, the runs of one workflow.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.which.name = Some(name.into());
        self
    }

    /// Of those, the ones in one queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.which.queue = Some(queue.into());
        self
    }

    /// Of those, the ones with a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.which.tag = Some(tag.into());
        self
    }
}

impl Client {
    /// Gives workflows that stopped a new attempt, as [`WorkflowHandle::resume`](crate::WorkflowHandle::resume) does: each is
    /// pending again in its queue, with all counts at zero, and keeps its recorded steps. Returns how many. One whose dedup
    /// key another unfinished run has by now stays as it is.
    ///
    /// Each is a change of its own: after an error, or if the caller gives up, those done stay done, and the same call goes
    /// on with the rest.
    ///
    /// # Errors
    /// With an id: [`ErrorKind::NotFound`], [`ErrorKind::AlreadyEnded`] if it is done, [`ErrorKind::Unsupported`] if it has
    /// not stopped, [`ErrorKind::Duplicate`] if its dedup key is taken. What the database says otherwise.
    pub async fn requeue(&self, which: Requeue) -> Result<u64, Error> {
        if let Some(id) = which.id {
            self.resume_one(&id).await?;
            return Ok(1);
        }
        let (mut requeued, mut after) = (0, String::new());
        loop {
            let ids = self.hub.ask(|| self.hub.store.stopped(&which.which, &after, PAGE)).await?;
            let Some(last) = ids.last() else { return Ok(requeued) };
            after.clone_from(last);
            for id in &ids {
                match self.resume_one(id).await {
                    Ok(()) => requeued += 1,
                    // Somebody else was faster, or its key is taken.
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::Duplicate
                                | ErrorKind::NotFound
                                | ErrorKind::AlreadyEnded
                                | ErrorKind::Unsupported
                        ) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    async fn resume_one(&self, id: &str) -> Result<(), Error> {
        let (store, write_id, owned) = (std::sync::Arc::clone(&self.hub.store), fastrand::i64(..), id.to_owned());
        let answer = self.hub.change(move || {
            let (store, id) = (std::sync::Arc::clone(&store), owned.clone());
            async move { store.resume(&id, write_id).await }
        });
        resumed(id, answer.await?)?;
        self.hub.wake("");
        Ok(())
    }
}

/// The answer to a resume, in words.
pub(super) fn resumed(id: &str, answer: ResumeAnswer) -> Result<(), Error> {
    match answer {
        ResumeAnswer::Resumed => Ok(()),
        ResumeAnswer::Refused(state) => {
            let kind = if state.status.has_ended() { ErrorKind::AlreadyEnded } else { ErrorKind::Unsupported };
            Err(Error::new(kind, format!("workflow `{id}` can't be resumed: it is {}", state.status)))
        }
        ResumeAnswer::Duplicate => Err(Error::new(
            ErrorKind::Duplicate,
            format!("workflow `{id}` can't be resumed: another unfinished run has its dedup key"),
        )),
        ResumeAnswer::Missing => Err(missing(id)),
    }
}

/// No workflow has the id.
pub(super) fn missing(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no workflow with the id `{id}`"))
}

//! Queues: naming, limiting, pausing, looking. Layer: client.

use std::sync::Arc;

use super::outside::Client;
use crate::error::{Error, ErrorKind};
use crate::ids::check_key;
use crate::model::{QueueInfo, QueueLimits};

impl Client {
    /// Names a queue and sets its limits, or sets those of one that exists: all of them, those left out are lifted. They
    /// count from the next claim on, of every executor; what runs goes on.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for a name that can't be used and for limits that can't be followed.
    pub async fn set_queue(&self, name: impl Into<String>, limits: QueueLimits) -> Result<(), Error> {
        let name: Arc<str> = name.into().into();
        check_key("queue", &name)?;
        if let Some(why) = limits.problem() {
            return Err(Error::new(ErrorKind::InvalidOption, format!("limits of queue `{name}`: {why}")));
        }
        self.hub.ask(|| self.hub.store.set_queue(&name, Some(&limits))).await?;
        self.hub.know_queue(&name);
        // There may be more room than before.
        self.hub.wake(&name);
        Ok(())
    }

    /// Pauses a queue: nothing of it is claimed until [`resume_queue`](Self::resume_queue), by whichever executor. What runs
    /// goes on, and what is submitted waits.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownQueue`] if nobody has named it.
    pub async fn pause_queue(&self, name: &str) -> Result<(), Error> {
        self.pause(name, true).await
    }

    /// Lets a paused queue go on.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownQueue`] if nobody has named it.
    pub async fn resume_queue(&self, name: &str) -> Result<(), Error> {
        self.pause(name, false).await?;
        self.hub.wake(name);
        Ok(())
    }

    async fn pause(&self, name: &str, paused: bool) -> Result<(), Error> {
        check_key("queue", name)?;
        if self.hub.ask(|| self.hub.store.pause_queue(name, paused)).await? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::UnknownQueue, format!("there is no queue `{name}` to pause or to let go on")))
    }

    /// Every queue by name, with its limits and its depth.
    ///
    /// # Errors
    /// What the database says.
    pub async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        self.hub.ask(|| self.hub.store.queues()).await
    }

    /// One queue; `None` if nobody has named it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn queue(&self, name: &str) -> Result<Option<QueueInfo>, Error> {
        Ok(self.queues().await?.into_iter().find(|queue| queue.name == name))
    }
}

//! The hub: what clients and the executor of one database share in a process.
//!
//! A client has a hub alone; a runtime's engine has one too. Handles hold it. Layer: executor.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::endings::Endings;
use super::engine::Engine;
use super::enqueuer::Enqueuer;
use super::settings::Settings;
use super::wakes::Wakes;
use super::watch::watch;
use crate::error::{Error, ErrorKind};
use crate::model::{DEFAULT_QUEUE, Due, EnqueueRow, Micros, Submitted};
use crate::store::{Store, StoreError, StoreErrorKind};
use crate::workflow::Context;

/// What clients and the executor of one database share in a process.
pub(crate) struct Hub {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) endings: Arc<Endings>,
    pub(super) handle: Handle,
    enqueuer: Enqueuer,
    pub(super) wakes: Wakes,
    /// Queues that exist; one that does exists for ever.
    queues: Mutex<HashSet<Arc<str>>>,
    /// Whether runs that wait for others were made here: then an end may be somebody's beginning.
    links: AtomicBool,
    closing: AtomicBool,
    engine: OnceLock<Weak<Engine>>,
}

impl Hub {
    /// A hub on the current tokio runtime.
    pub(crate) fn new(settings: Settings, store: Arc<dyn Store>) -> Arc<Self> {
        let hub = Arc::new(Self {
            endings: Arc::default(),
            handle: Handle::current(),
            enqueuer: Enqueuer::start(Arc::clone(&store)),
            wakes: Wakes::start(Arc::clone(&store)),
            queues: Mutex::new(HashSet::from([DEFAULT_QUEUE.into()])),
            links: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            engine: OnceLock::new(),
            settings,
            store,
        });
        tokio::spawn(watch(Arc::downgrade(&hub), Arc::clone(&hub.endings), hub.settings.poll));
        hub
    }

    pub(super) fn serve(&self, engine: &Arc<Engine>) {
        // Once for each engine, which makes its own hub.
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.get().and_then(Weak::upgrade)
    }

    /// True once its runtime ends.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(super) fn close(&self) -> bool {
        self.closing.swap(true, Ordering::SeqCst)
    }

    /// True if an end may make another run pending, as far as this process knows.
    pub(super) fn has_links(&self) -> bool {
        self.links.load(Ordering::Relaxed)
    }

    /// True if the workflow runs in this process, which is then told of its end.
    pub(crate) fn runs_here(&self, id: &str) -> bool {
        self.run_of(id).is_some()
    }

    /// The run of a workflow in this process.
    pub(crate) fn run_of(&self, id: &str) -> Option<Arc<Context>> {
        self.engine()?.run_of(id)
    }

    /// See [`Engine::cancel_here`].
    pub(crate) fn cancel_here(&self, id: &str, epoch: i32, at: Option<Micros>) -> bool {
        self.engine().is_some_and(|engine| engine.cancel_here(id, epoch, at))
    }

    /// Makes executors look for work in a queue now: the one here, and those elsewhere.
    pub(crate) fn wake(&self, queue: &str) {
        if let Some(engine) = self.engine() {
            engine.wake();
        }
        self.wakes.tell(queue);
    }

    /// Makes the executor here look for work when something falls due, and those elsewhere if their own look may be late.
    pub(super) fn wake_in(&self, delay: Duration) {
        if let Some(engine) = self.engine() {
            engine.wake_at(Instant::now() + delay);
        }
        if delay < self.settings.heartbeat * 2 {
            self.wakes.tell("");
        }
    }

    /// # Errors
    /// [`ErrorKind::UnknownQueue`] if nobody has named the queue.
    pub(crate) async fn check_queue(&self, queue: &Arc<str>) -> Result<(), Error> {
        if self.lock_queues().contains(queue) {
            return Ok(());
        }
        if !self.ask(|| self.store.has_queue(queue)).await? {
            return Err(Error::new(
                ErrorKind::UnknownQueue,
                format!(
                    "there is no queue `{queue}`: name it with `#[workflow(queue = \"…\")]`, `Builder::queue` or `Client::set_queue`"
                ),
            ));
        }
        self.know_queue(queue);
        Ok(())
    }

    /// Notes that a queue exists.
    pub(crate) fn know_queue(&self, queue: &Arc<str>) {
        self.lock_queues().insert(Arc::clone(queue));
    }

    fn lock_queues(&self) -> std::sync::MutexGuard<'_, HashSet<Arc<str>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records workflows in one commit, and wakes who may run them. Goes on to its end even if the caller gives up.
    pub(crate) async fn submit(&self, rows: Vec<EnqueueRow>) -> Result<Vec<Submitted>, Error> {
        if rows.iter().any(|row| !row.after.is_empty()) {
            self.links.store(true, Ordering::Relaxed);
        }
        let whom: Vec<(Arc<str>, Due)> = rows.iter().map(|row| (Arc::clone(&row.queue), row.due)).collect();
        let give_up_at = Instant::now() + self.settings.start_timeout;
        let answers = self.enqueuer.submit(rows, give_up_at).await.map_err(|error| match error.kind {
            StoreErrorKind::NotFound => Error::from(error),
            _ => {
                let error = Error::from(error);
                let again = "nothing is lost: call again with the same ids";
                Error::new(error.kind(), format!("the workflows could not be recorded: {error}; {again}"))
                    .with_source(error)
            }
        })?;
        let mut told = HashSet::new();
        for ((queue, due), answer) in whom.into_iter().zip(&answers) {
            match due {
                _ if *answer != Submitted::New => {}
                Due::In(delay) => self.wake_in(Duration::from_micros(delay.unsigned_abs())),
                // When that is by the database's clock is for a look to tell.
                Due::At(_) => self.wake_in(Duration::ZERO),
                Due::Now => {
                    if told.insert(Arc::clone(&queue)) {
                        self.wake(&queue);
                    }
                }
            }
        }
        Ok(answers)
    }

    /// A change in an engine task, which a caller that gives up can't leave half-way; repeated while the database is away. The
    /// question carries the write id that tells what an earlier try has done.
    pub(crate) async fn change<T, F, Fut>(self: &Arc<Self>, question: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let hub = Arc::clone(self);
        match tokio::spawn(async move { hub.ask(question).await }).await {
            Ok(answer) => answer,
            Err(error) => Err(Error::new(ErrorKind::ShuttingDown, "the runtime ended before the database answered")
                .with_source(error)),
        }
    }

    /// Asks the database, again while it is away, for as long as a call may wait.
    pub(crate) async fn ask<T, Fut>(&self, question: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let give_up_at = Instant::now() + self.settings.start_timeout;
        let mut pause = Duration::from_millis(20);
        loop {
            match question().await {
                Err(error) if error.is_unanswered() && Instant::now() < give_up_at => {
                    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                answer => return answer.map_err(Error::from),
            }
        }
    }
}

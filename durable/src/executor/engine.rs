//! The engine: what one runtime holds while it lives. Layer: executor.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch as channel;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::hub::Hub;
use super::identity::Identity;
use super::liveness::Roster;
use super::settings::Settings;
use super::supervisor::{Tally, supervise};
use crate::clock::{DatabaseClock, since_boot};
use crate::error::Error;
use crate::model::{DEFAULT_QUEUE, Micros};
use crate::registry::Registry;
use crate::store::Store;
use crate::workflow::{Context, EventHook, Services, StateMap, StopReason, install_hook};

/// How long a queue that was found limited is not tried again.
const LIMITED_FOR: Duration = Duration::from_secs(10);

/// What one runtime holds while it lives.
pub(crate) struct Engine {
    pub(crate) hub: Arc<Hub>,
    pub(crate) registry: Registry,
    pub(crate) services: Arc<Services>,
    pub(super) running: Arc<Running>,
    pub(super) slots: Arc<Semaphore>,
    /// Wakes the supervisor: room or work may be there.
    pub(super) wake: Notify,
    pub(super) tally: Mutex<Tally>,
    /// The number of the last beat that the supervisor has dealt with.
    pub(super) processed: channel::Sender<u64>,
    /// Whether more is pending than there was room for when somebody last looked.
    pub(super) backlog: AtomicBool,
    /// Whether others may be taken over yet.
    pub(super) sweeping: AtomicBool,
    /// Queues that were found limited or paused, and when to find out again.
    limited: Mutex<HashMap<Arc<str>, Instant>>,
    /// Counts the claims: which queue begins.
    pub(super) turn: AtomicI32,
    identity: RwLock<Arc<Identity>>,
    pub(super) closed: Notify,
    /// True once nothing is left to do.
    ended: channel::Sender<bool>,
}

/// Store, settings and waiters are the hub's.
impl Deref for Engine {
    type Target = Hub;

    fn deref(&self) -> &Hub {
        &self.hub
    }
}

/// A workflow that runs here.
pub(super) struct Run {
    pub(super) context: Arc<Context>,
    pub(super) identity: Arc<Identity>,
    /// Microseconds since boot at which the poll began that has not come back; zero between polls.
    pub(super) polling_since: AtomicU64,
}

/// The workflows that run here, and those that are about to.
#[derive(Default)]
pub(super) struct Running {
    runs: Mutex<HashMap<Arc<str>, Arc<Run>>>,
    starting: Mutex<HashMap<Arc<str>, usize>>,
    pub(super) ended: Notify,
}

impl Running {
    pub(super) fn insert(&self, run: &Arc<Run>) {
        lock(&self.runs).insert(Arc::clone(&run.context.workflow_id), Arc::clone(run));
    }

    pub(super) fn remove(&self, run: &Arc<Run>) {
        let mut runs = lock(&self.runs);
        // A later incarnation may run the same workflow by now.
        if runs.get(&run.context.workflow_id).is_some_and(|held| Arc::ptr_eq(held, run)) {
            runs.remove(&run.context.workflow_id);
        }
        drop(runs);
        self.ended.notify_waiters();
    }

    pub(super) fn all(&self) -> Vec<Arc<Run>> {
        lock(&self.runs).values().cloned().collect()
    }

    pub(super) fn stop_of(&self, id: &str) -> Option<Arc<Context>> {
        lock(&self.runs).get(id).map(|run| Arc::clone(&run.context))
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.runs).is_empty() && lock(&self.starting).is_empty()
    }

    /// Notes that a start is on its way until the guard is dropped.
    pub(super) fn starting(self: &Arc<Self>, id: &Arc<str>) -> Starting {
        *lock(&self.starting).entry(Arc::clone(id)).or_default() += 1;
        Starting { running: Arc::clone(self), id: Arc::clone(id) }
    }

    /// Every id that this process runs or is about to.
    pub(super) fn ids(&self) -> Vec<Arc<str>> {
        let mut ids: Vec<_> = lock(&self.starting).keys().cloned().collect();
        ids.extend(lock(&self.runs).keys().cloned());
        ids
    }
}

/// Held while a start is on its way.
pub(super) struct Starting {
    running: Arc<Running>,
    id: Arc<str>,
}

impl Drop for Starting {
    fn drop(&mut self) {
        let mut starting = lock(&self.running.starting);
        if let Some(count) = starting.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                starting.remove(&self.id);
            }
        }
        drop(starting);
        self.running.ended.notify_waiters();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Registers an executor on a store that is up, and begins to serve.
    pub(crate) async fn begin(
        settings: Settings,
        store: Arc<dyn Store>,
        registry: Registry,
        state: StateMap,
        hook: Option<EventHook>,
    ) -> Result<Arc<Self>, Error> {
        install_hook();
        let running = Arc::new(Running::default());
        declare(&*store, &settings, &registry).await?;
        let identity = Identity::register(&store, &settings, &registry, roster(&running)).await?;
        let clock = DatabaseClock::new(identity.first_reading);
        let services = Arc::new(Services { clock, hook, state, limits: settings.limits });
        let engine = Arc::new(Self {
            slots: Arc::new(Semaphore::new(settings.max_running.min(Semaphore::MAX_PERMITS))),
            hub: Hub::new(settings, store),
            registry,
            services,
            running,
            wake: Notify::new(),
            tally: Mutex::default(),
            processed: channel::channel(0).0,
            backlog: AtomicBool::new(false),
            sweeping: AtomicBool::new(false),
            limited: Mutex::default(),
            turn: AtomicI32::new(0),
            identity: RwLock::new(identity),
            closed: Notify::new(),
            ended: channel::channel(false).0,
        });
        engine.hub.serve(&engine);
        tokio::spawn(supervise(Arc::downgrade(&engine)));
        Ok(engine)
    }

    /// The present incarnation.
    pub(crate) fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.identity.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops everything that the old incarnation runs, and comes back as a new one.
    pub(super) async fn come_back(&self) {
        let old = self.identity();
        old.liveness.stop();
        for run in self.running.all() {
            if Arc::ptr_eq(&run.identity, &old) {
                run.context.stop.request(StopReason::Fenced);
            }
        }
        tracing::error!(
            executor = &*old.executor_id,
            "this executor was declared dead and its workflows were taken over: it stops them and comes back under a new id"
        );
        let mut pause = Duration::from_millis(50);
        while !self.is_closing() {
            match Identity::register(&self.store, &self.settings, &self.registry, roster(&self.running)).await {
                Ok(identity) => {
                    self.services.clock.set(identity.first_reading);
                    *self.identity.write().unwrap_or_else(PoisonError::into_inner) = identity;
                    return;
                }
                Err(error) => tracing::warn!(%error, "the executor can't register again yet"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    /// A slot is free: the supervisor looks for work if some was left, or if a limit or an end may have held some back.
    pub(super) fn slot_is_free(&self, claimed: bool) {
        if claimed || self.backlog.load(Ordering::SeqCst) || self.has_links() {
            self.wake();
        }
    }

    /// True if a workflow of this queue may begin here in the commit that records it: nothing is known to be before it.
    /// Whether the queue is limited is for that commit to say.
    pub(crate) fn may_begin(&self, queue: &str) -> bool {
        !self.backlog.load(Ordering::SeqCst) && self.serves(queue) && !self.is_limited(queue)
    }

    fn is_limited(&self, queue: &str) -> bool {
        let mut limited = lock(&self.limited);
        match limited.get(queue) {
            Some(until) if *until > Instant::now() => true,
            Some(_) => {
                limited.remove(queue);
                false
            }
            None => false,
        }
    }

    pub(super) fn note_limited(&self, queue: &str) {
        lock(&self.limited).insert(queue.into(), Instant::now() + LIMITED_FOR);
    }

    fn serves(&self, queue: &str) -> bool {
        self.settings.queues.as_deref().is_none_or(|served| served.iter().any(|name| name == queue))
    }

    /// Makes the supervisor look for work at a moment.
    pub(super) fn wake_at(&self, at: Instant) {
        self.identity().liveness.due_by(at);
    }

    /// The run of a workflow in this process.
    pub(crate) fn run_of(&self, id: &str) -> Option<Arc<Context>> {
        self.running.stop_of(id)
    }

    /// Tells a workflow that runs here under `epoch` that it is cancelled, since when by the database's clock; `false`
    /// if it does not run here. A later run is that of a new attempt, and stays.
    pub(crate) fn cancel_here(&self, id: &str, epoch: i32, at: Option<Micros>) -> bool {
        let Some(context) = self.running.stop_of(id).filter(|context| context.epoch == epoch) else { return false };
        if let Some(at) = at {
            context.cancelled_at.fetch_min(at, Ordering::SeqCst);
        }
        context.stop.request(StopReason::Cancelled);
        true
    }

    /// Makes the supervisor look for work now.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Ends gracefully: no new work, running steps have their grace, the rest goes back for others to take.
    ///
    /// In a task of its own: whoever gives up waiting leaves nothing half-way, and everybody who asks waits for its end.
    pub(crate) async fn shutdown(self: &Arc<Self>) {
        let mut ended = self.ended.subscribe();
        if !self.hub.close() {
            let engine = Arc::clone(self);
            self.handle.spawn(async move {
                let _told = Told(&engine);
                engine.wind_down().await;
            });
        }
        // The sender lives as long as the engine.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    async fn wind_down(&self) {
        for run in self.running.all() {
            run.context.stop.request(StopReason::Shutdown);
        }
        // Bodies have their grace; what follows it is a write or two, which an absent database must not hold forever.
        let patience = self.settings.cancel_grace.saturating_add(Duration::from_secs(5));
        let _ = tokio::time::timeout(patience, async {
            loop {
                let ended = self.running.ended.notified();
                if self.running.is_empty() {
                    break;
                }
                // A start that was on its way may have become a run.
                for run in self.running.all() {
                    run.context.stop.request(StopReason::Shutdown);
                }
                let _ = tokio::time::timeout(Duration::from_millis(100), ended).await;
            }
        })
        .await;
        let identity = self.identity();
        let goodbye = async {
            self.store.release_orphans(&identity.executor_id, &[]).await?;
            self.store.retire(&identity.executor_id).await?;
            // Others go on with it at once.
            self.store.wake(&[String::new()]).await
        };
        match tokio::time::timeout(Duration::from_secs(5), goodbye).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the executor could not say goodbye: others take over after the grace")
            }
            Err(_) => tracing::warn!("the executor could not say goodbye in time: others take over after the grace"),
        }
        self.abandon();
    }

    /// Ends at once, as a crash would, but with every task and connection gone.
    pub(crate) fn abandon(&self) {
        self.hub.close();
        for run in self.running.all() {
            run.context.stop.request(StopReason::Fenced);
        }
        let identity = self.identity();
        identity.health.abandon();
        identity.liveness.stop();
        self.closed.notify_waiters();
        self.closed.notify_one();
        self.ended.send_replace(true);
    }
}

/// Tells that the end is reached, also if its task is dropped with the tokio runtime.
struct Told<'a>(&'a Engine);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.ended.send_replace(true);
    }
}

/// The queues that the program names, and what it has.
async fn declare(store: &dyn Store, settings: &Settings, registry: &Registry) -> Result<(), Error> {
    for (name, limits) in &settings.declared {
        store.set_queue(name, Some(limits)).await?;
    }
    for (_, _, queue) in &registry.workflows {
        if **queue != *DEFAULT_QUEUE && !settings.declared.contains_key(&**queue) {
            store.set_queue(queue, None).await?;
        }
    }
    Ok(store.register_workflows(&registry.workflows).await?)
}

fn roster(running: &Arc<Running>) -> Roster {
    let running = Arc::downgrade(running);
    Arc::new(move || {
        let Some(running) = running.upgrade() else { return Vec::new() };
        let now = since_boot();
        let polls = running.all().into_iter().filter_map(|run| {
            let since = run.polling_since.load(Ordering::Acquire);
            (since > 0).then(|| (Arc::clone(&run.context), now.saturating_sub(Duration::from_micros(since))))
        });
        polls.collect()
    })
}

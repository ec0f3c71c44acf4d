//! Liveness: lock and heartbeat on an OS thread and a connection of their own, so that a step that blocks the
//! runtime can't starve them.
//!
//! Guarantees that a beat counts from before it was sent, that judgement on others waits until this session has
//! itself watched for as long, and that after a lost session the lock and a heartbeat come before anything else.
//! Layer: executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::clock::{Reading, since_boot};
use crate::store::StoreError;
use crate::store::executor::{Beat, BeatQuestion, LivenessConnection, Look, Woken};
use crate::workflow::Context;
use crate::writer::Health;

/// A database that stays away is not silent for longer than this.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Between two words of work.
const LISTEN_PAUSE: Duration = Duration::from_millis(2);

/// Between two claims of what falls due.
const DUE_PAUSE: Duration = Duration::from_millis(5);

/// A beat, and what it says of the time.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    pub(super) beat: Beat,
    pub(super) reading: Reading,
    /// Counts the beats.
    pub(super) number: u64,
}

/// The sign of life of one executor.
pub(super) struct Liveness {
    /// Microseconds since boot of the last acknowledged heartbeat.
    acknowledged: AtomicU64,
    lease: Duration,
    stopping: AtomicBool,
    stop: Notify,
    /// Beat now instead of at the next turn.
    hurry: Notify,
    pub(super) heard: watch::Receiver<Heard>,
    /// Another process, or a look, says that there is work.
    pub(super) work: Notify,
    /// When the next falls due.
    pub(super) due_at: watch::Sender<Option<Instant>>,
    /// Look when that is.
    again: Notify,
    /// The last look saw a queue with a rate.
    rated: AtomicBool,
}

/// Workflows that run now, for the log line about one that blocks its thread.
pub(super) type Roster = Arc<dyn Fn() -> Vec<(Arc<Context>, Duration)> + Send + Sync>;

impl Liveness {
    /// Starts the thread and waits for the first beat.
    pub(super) async fn start(
        connection: Box<dyn LivenessConnection>,
        question: BeatQuestion,
        every: Duration,
        health: Arc<Health>,
        roster: Roster,
    ) -> Result<Arc<Self>, StoreError> {
        let (said, heard) = watch::channel(Heard::default());
        let lease = question.lease;
        let liveness = Arc::new(Self {
            acknowledged: AtomicU64::new(micros(since_boot())),
            lease,
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
            hurry: Notify::new(),
            heard,
            work: Notify::new(),
            due_at: watch::channel(None).0,
            again: Notify::new(),
            rated: AtomicBool::new(false),
        });
        let (ready, first) = oneshot::channel();
        let here = Arc::clone(&liveness);
        let spawned = thread::Builder::new().name("durable-liveness".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(here.run(connection, question, every, said, health, roster, ready)),
                Err(error) => {
                    let _ = ready.send(Err(no_thread(&error)));
                }
            }
        });
        if let Err(error) = spawned {
            return Err(no_thread(&error));
        }
        match first.await {
            Ok(first) => first.map(|()| liveness),
            Err(_) => Err(StoreError::new(crate::store::StoreErrorKind::Unavailable, "the heartbeat's thread ended")),
        }
    }

    /// True if the database acknowledged a heartbeat within the lease: only then may user code be polled.
    pub(super) fn is_fresh(&self) -> bool {
        let acknowledged = Duration::from_micros(self.acknowledged.load(Ordering::Acquire));
        since_boot().saturating_sub(acknowledged) < self.lease
    }

    /// Something falls due by a moment: the supervisor looks then.
    pub(super) fn due_by(&self, at: Instant) {
        self.due_at.send_if_modified(|held| {
            let sooner = held.is_none_or(|held| at < held);
            if sooner {
                *held = Some(at);
            }
            sooner
        });
    }

    /// A claim has taken what there is: what does the next wait for? `fallen_due` if that claim was for what fell due,
    /// and behind it another may.
    pub(super) fn claimed(&self, fallen_due: bool) {
        if fallen_due || self.rated.load(Ordering::Relaxed) {
            self.again.notify_one();
        }
    }

    fn note_due(&self, look: Look) {
        self.rated.store(look.rated, Ordering::Relaxed);
        if let Some(micros) = look.due_in.filter(|micros| *micros > 0) {
            // A moment more: what is early for the database is looked for twice. Years ahead are for a later look.
            let delay = Duration::from_micros(micros.unsigned_abs()).min(Duration::from_secs(3600));
            self.due_by(Instant::now() + delay.max(DUE_PAUSE) + Duration::from_millis(1));
        }
    }

    /// Waits until there may be work; looks itself where that is only a guess.
    async fn listen(&self, connection: &mut dyn LivenessConnection, question: &BeatQuestion) -> Result<(), StoreError> {
        loop {
            let woken = tokio::select! {
                woken = connection.woken() => Some(woken?),
                () = self.again.notified() => None,
            };
            if woken != Some(Woken::Pending) {
                let look = connection.look(question).await?;
                self.note_due(look);
                if woken.is_none() && look.due_in.is_some_and(|micros| micros <= 0) {
                    self.due_by(Instant::now() + DUE_PAUSE);
                }
                // What is pending behind a claim is held back.
                if woken.is_none() || !look.due {
                    continue;
                }
            }
            self.work.notify_one();
            // What is said meanwhile is said of the same.
            tokio::time::sleep(LISTEN_PAUSE).await;
        }
    }

    /// Asks for a beat now.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Ends the thread; the lock is given back.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.stop.notify_one();
    }

    #[expect(clippy::too_many_arguments, reason = "the thread's own main function")]
    async fn run(
        self: Arc<Self>,
        mut connection: Box<dyn LivenessConnection>,
        mut question: BeatQuestion,
        every: Duration,
        said: watch::Sender<Heard>,
        health: Arc<Health>,
        roster: Roster,
        ready: oneshot::Sender<Result<(), StoreError>>,
    ) {
        let mut ready = Some(ready);
        let mut watching_since = None;
        let mut last_asked_at = since_boot();
        let mut number = 0;
        let mut failures = 0_u32;
        let mut logged_at = Duration::ZERO;
        while !self.stopping.load(Ordering::SeqCst) && !health.is_lost() {
            let turn = since_boot();
            let patience = every.max(Duration::from_secs(1)) * 10;
            let beat = tokio::time::timeout(patience, async {
                if watching_since.is_none() {
                    connection.acquire().await?;
                }
                // Read behind the wait for a session, in which it saw nothing of the others.
                let asked_at = since_boot();
                if asked_at.saturating_sub(last_asked_at) >= question.grace {
                    // A machine that slept, or a database that hung: the others may have lost the same time.
                    watching_since = watching_since.map(|_| asked_at);
                }
                last_asked_at = asked_at;
                question.watching = watching_since.map_or(Duration::ZERO, |since| asked_at.saturating_sub(since));
                let mut beat = connection.beat(&question).await?;
                let answered_at = since_boot();
                if answered_at.saturating_sub(asked_at) >= question.grace {
                    beat.dead.retain(|dead| dead.marked);
                }
                Ok::<_, StoreError>((Reading { database: beat.now, asked_at, answered_at }, beat))
            })
            .await
            .unwrap_or_else(|_| {
                Err(StoreError::new(crate::store::StoreErrorKind::Unavailable, "the heartbeat was not answered"))
            });
            match beat {
                Ok((reading, beat)) => {
                    let asked_at = reading.asked_at;
                    failures = 0;
                    watching_since.get_or_insert(asked_at);
                    if !beat.alive {
                        health.lose();
                        break;
                    }
                    self.acknowledged.store(micros(asked_at), Ordering::Release);
                    number += 1;
                    self.note_due(beat.look);
                    said.send_replace(Heard { beat, reading, number });
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(Ok(()));
                    }
                }
                Err(error) => {
                    // Whatever broke, this session's view of the others did too.
                    watching_since = None;
                    if failures >= 3
                        && let Some(ready) = ready.take()
                    {
                        let _ = ready.send(Err(error));
                        break;
                    }
                    failures += 1;
                    if failures == 1 || since_boot().saturating_sub(logged_at) >= LOG_EVERY {
                        logged_at = since_boot();
                        tracing::warn!(error = %crate::writer::Chain(&error), failures, "no heartbeat");
                    }
                }
            }
            warn_of_blocking(&roster);
            // A lost session is replaced before others may judge it: well within the grace.
            let wait = if failures == 0 { every } else { every.min(Duration::from_millis(250)) };
            let wait = wait.mul_f64(0.95 + fastrand::f64() * 0.1).saturating_sub(since_boot().saturating_sub(turn));
            let wait = tokio::time::sleep(wait.max(Duration::from_millis(5)));
            let listens = failures == 0;
            tokio::select! {
                () = self.stop.notified() => {}
                () = self.hurry.notified() => {}
                () = wait => {}
                gone = self.listen(&mut *connection, &question), if listens => {
                    // The next beat takes the lock again in a new session.
                    if let Err(error) = gone {
                        tracing::debug!(%error, "the heartbeat's session ended");
                        watching_since = None;
                    }
                }
            }
        }
        connection.release().await;
    }
}

/// A poll that does not come back starves everything else on its thread.
fn warn_of_blocking(roster: &Roster) {
    for (context, polling) in roster() {
        if polling >= Duration::from_secs(2) {
            tracing::warn!(
                workflow_id = &*context.workflow_id,
                steps = ?context.bodies.names(),
                seconds = polling.as_secs(),
                "a step blocks its thread without awaiting: move the work to `tokio::task::spawn_blocking`"
            );
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn no_thread(error: &std::io::Error) -> StoreError {
    StoreError::new(
        crate::store::StoreErrorKind::Unavailable,
        format!("the heartbeat's thread can't be started: {error}"),
    )
}

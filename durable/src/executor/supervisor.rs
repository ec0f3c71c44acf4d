//! The supervisor: takes over from the dead, claims what is due, and looks after what runs. One task for each runtime.
//! Layer: executor.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch as channel;
use tokio::time::Instant;

use super::driver::{Job, drive};
use super::engine::{Engine, lock};
use super::identity::Identity;
use super::liveness::Heard;
use crate::crash::crash_point;
use crate::error::Error;
use crate::model::{ClaimedWorkflow, HistoryRows};
use crate::replay::History;
use crate::store::claim::Wanted;
use crate::store::executor::DeadExecutor;
use crate::store::{Result, StoreError, in_time};
use crate::workflow::StopReason;

/// Rows that one statement gives back.
const RELEASE_ROWS: i64 = 1_000;

/// Workflows that one claim takes.
const CLAIM_ROWS: usize = 500;

/// Histories that one read loads.
const HISTORY_PAGE: usize = 100;

/// What this process has claimed since it started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) workflows: usize,
    pub(crate) ids: Vec<String>,
    pub(crate) steps: usize,
    /// Names, versions and numbers of pending workflows that this program does not have.
    pub(crate) unserved: Vec<(String, i32, i64)>,
}

/// Ids that a report lists; all are counted.
const TALLY_IDS: usize = 10_000;

/// A supervisor that ends with its tokio runtime takes the sign of life with it: others take over, and whoever waits
/// here is told.
struct LastWords(Weak<Engine>);

impl Drop for LastWords {
    fn drop(&mut self) {
        if let Some(engine) = self.0.upgrade()
            && !engine.is_closing()
        {
            tracing::error!(
                "the tokio runtime of a durable runtime ended without `shutdown()`: others take over its workflows"
            );
            engine.abandon();
        }
    }
}

/// Until the engine is closed or gone.
pub(super) async fn supervise(engine: Weak<Engine>) {
    let _last_words = LastWords(Weak::clone(&engine));
    let Some(begun) = engine.upgrade() else { return };
    // Without a `recover()`, others are taken over only after one grace.
    let sweep_after = Instant::now() + begun.settings.grace;
    drop(begun);
    let mut own = State {
        interruptions: 0,
        orphans: false,
        fallen_due: false,
        unserved_at: Instant::now(),
        suspects: Vec::new(),
        suspect_batch: 1,
    };
    loop {
        let Some(engine) = engine.upgrade() else { return };
        let identity = engine.identity();
        let mut heard = identity.liveness.heard.clone();
        if engine.is_closing() {
            return;
        }
        let number = *engine.processed.borrow();
        let mut due_at = identity.liveness.due_at.subscribe();
        let news = tokio::select! {
            () = engine.closed.notified() => return,
            () = identity.health.lost() => News::Lost,
            () = engine.wake.notified() => News::Work,
            () = identity.liveness.work.notified() => News::Work,
            () = fallen_due(&mut due_at) => News::FallenDue,
            beat = heard.wait_for(|heard| heard.number != number && heard.number > 0) => match beat {
                Ok(heard) => News::Beat(heard.clone()),
                Err(_) => News::Lost,
            },
        };
        match news {
            News::Lost if engine.is_closing() => return,
            News::Lost => {
                engine.come_back().await;
                own = State { interruptions: 0, ..own };
                engine.processed.send_replace(0);
            }
            News::Work => engine.claim(&identity, &mut own).await,
            News::FallenDue => {
                identity.liveness.due_at.send_replace(None);
                own.fallen_due = true;
                engine.claim(&identity, &mut own).await;
            }
            News::Beat(heard) => {
                if Instant::now() >= sweep_after {
                    engine.sweeping.store(true, Ordering::SeqCst);
                }
                engine.deal_with(&identity, &heard, &mut own).await;
                engine.processed.send_replace(heard.number);
            }
        }
    }
}

/// What the supervisor waits for.
enum News {
    /// This executor is dead, by the word of others.
    Lost,
    /// There may be something to claim.
    Work,
    /// A time has come.
    FallenDue,
    Beat(Heard),
}

/// Resolves when the next is due, as far as a look or a start here has told.
async fn fallen_due(due_at: &mut channel::Receiver<Option<Instant>>) {
    loop {
        let held = *due_at.borrow_and_update();
        let changed = match held {
            Some(at) => tokio::time::timeout_at(at, due_at.changed()).await,
            None => Ok(due_at.changed().await),
        };
        match changed {
            Ok(Ok(())) => {}
            Ok(Err(_)) => std::future::pending().await,
            Err(_) => return,
        }
    }
}

/// What the supervisor remembers between beats.
struct State {
    interruptions: i64,
    /// A claim's reply was lost: workflows may be ours without running.
    orphans: bool,
    /// A time has come since the last claim that took all there was.
    fallen_due: bool,
    unserved_at: Instant,
    /// Suspects that this process runs, and since when. None follows until each of them has recorded a step, ended, or
    /// run for a grace.
    suspects: Vec<(Arc<str>, Instant)>,
    /// How many may be claimed then: one at first, twice as many each time.
    suspect_batch: usize,
}

/// Whether a claim got as many as it asked for.
enum Claimed {
    All,
    Fewer,
}

impl Engine {
    /// Sweeps now: takes over every executor that is dead, and claims what that makes due. Waits for a judgement that
    /// is only a matter of the grace, or of the lease where executors have no locks.
    pub(crate) async fn recover(&self) -> std::result::Result<Tally, Error> {
        self.sweeping.store(true, Ordering::SeqCst);
        let begun_at = Instant::now();
        let patience = |judgement| begun_at + judgement + self.settings.heartbeat * 3;
        let (by_lock, by_lease) = (patience(self.settings.grace), patience(self.settings.lease));
        loop {
            self.one_sweep(Instant::now() + self.settings.grace + Duration::from_secs(10)).await?;
            let identity = self.identity();
            let question = self.store.suspects(&identity.executor_id, begun_at.elapsed());
            let suspects = in_time(question).await.map_err(Error::from)?;
            let now = Instant::now();
            if !(suspects.by_lock && now < by_lock || suspects.by_lease && now < by_lease) {
                let unserved = in_time(self.store.unserved(&self.registry.served)).await.map_err(Error::from)?;
                return Ok(Tally { unserved, ..lock(&self.tally).clone() });
            }
            // A judgement by lease is far off, and each turn is a beat.
            tokio::time::sleep(Duration::from_millis(if suspects.by_lock { 50 } else { 250 })).await;
        }
    }

    /// Waits until the supervisor has dealt with a beat that is asked for after now.
    async fn one_sweep(&self, deadline: Instant) -> std::result::Result<(), Error> {
        let identity = self.identity();
        let before = identity.liveness.heard.borrow().number;
        let mut processed = self.processed.subscribe();
        identity.liveness.hurry();
        let swept = tokio::time::timeout_at(deadline, processed.wait_for(|number| *number > before)).await;
        match swept {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::from(StoreError::new(
                crate::store::StoreErrorKind::Unavailable,
                "the database did not answer while looking for dead executors; recovery goes on in the background",
            ))),
        }
    }

    async fn deal_with(self: &Arc<Self>, identity: &Arc<Identity>, heard: &Heard, own: &mut State) {
        self.services.clock.set(heard.reading);
        if heard.beat.interruptions != own.interruptions {
            own.interruptions = heard.beat.interruptions;
            self.stop_what_was_taken(identity).await;
        }
        for run in self.running.all() {
            let writer = run.identity.writer(&run.context.workflow_id);
            run.context.notes_on_long_bodies().into_iter().for_each(|note| writer.enqueue(note));
        }
        let mut released = false;
        if self.sweeping.load(Ordering::SeqCst) {
            for dead in &heard.beat.dead {
                match self.take_over(dead).await {
                    Ok(some) => released |= some,
                    Err(error) => {
                        tracing::warn!(%error, executor = dead.executor_id, "a takeover waits for the database")
                    }
                }
            }
        }
        if heard.beat.look.due || released || own.orphans {
            self.claim(identity, own).await;
        }
        self.report_unserved(own).await;
    }

    /// Bumps the lease rows first, which waits for a statement in flight; then gives back what was owned.
    async fn take_over(&self, dead: &DeadExecutor) -> Result<bool> {
        if !dead.marked && !in_time(self.store.take_over(&dead.executor_id, dead.heartbeat_at)).await? {
            return Ok(false);
        }
        crash_point("between-takeover-and-release");
        let max = i32::try_from(self.settings.max_recoveries).unwrap_or(i32::MAX);
        let mut total = 0;
        loop {
            let released = in_time(self.store.release_dead(&dead.executor_id, max, RELEASE_ROWS)).await?;
            total += released;
            if released == 0 {
                break;
            }
        }
        in_time(self.store.mark_released(&dead.executor_id)).await?;
        if total > 0 {
            tracing::info!(
                executor = dead.executor_id,
                name = dead.name,
                workflows = total,
                "took over from a dead executor"
            );
        }
        Ok(total > 0)
    }

    /// Claims what is due, as far as there is room; then suspects, as many as the last of them have earned.
    async fn claim(self: &Arc<Self>, identity: &Arc<Identity>, own: &mut State) {
        if self.settings.queues.as_deref().is_some_and(<[_]>::is_empty) {
            return;
        }
        while !self.is_closing() && identity.may_poll() {
            if own.orphans && !self.release_orphans(identity, own).await {
                return;
            }
            match self.claim_some(identity, own, CLAIM_ROWS, false).await {
                Some(Claimed::All) => {}
                Some(Claimed::Fewer) => {
                    identity.liveness.claimed(std::mem::take(&mut own.fallen_due));
                    break;
                }
                None => return,
            }
        }
        // Who has recorded a step, or run for a grace, is not what ended its executors at once.
        let unproven = own.suspects.iter().any(|(id, since)| {
            since.elapsed() < self.settings.grace
                && self.running.stop_of(id).is_some_and(|context| !context.has_progressed())
        });
        if unproven || self.is_closing() || !identity.may_poll() {
            return;
        }
        if !own.suspects.is_empty() {
            own.suspects.clear();
            own.suspect_batch = (own.suspect_batch * 2).min(CLAIM_ROWS);
        }
        if matches!(self.claim_some(identity, own, own.suspect_batch, true).await, Some(Claimed::All)) {
            // Whichever of them ends first asks for more.
            self.backlog.store(true, Ordering::SeqCst);
        }
    }

    /// Gives back what a lost reply may have left with us. `false` if that has to wait.
    async fn release_orphans(&self, identity: &Identity, own: &mut State) -> bool {
        let keep = self.running.ids();
        match in_time(self.store.release_orphans(&identity.executor_id, &keep)).await {
            Ok(released) => {
                own.orphans = false;
                if released > 0 {
                    tracing::warn!(workflows = released, "gave back workflows whose claim was not answered");
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, "unanswered claims wait for the database");
                false
            }
        }
    }

    /// One claim of up to `most` workflows, and their drivers. `None` if there is no room or no answer.
    async fn claim_some(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        own: &mut State,
        most: usize,
        suspects: bool,
    ) -> Option<Claimed> {
        let mut slots = Vec::new();
        while slots.len() < most {
            match Arc::clone(&self.slots).try_acquire_owned() {
                Ok(slot) => slots.push(slot),
                Err(_) => break,
            }
        }
        if slots.is_empty() {
            // Whoever gives a slot back asks again.
            self.backlog.store(true, Ordering::SeqCst);
            return None;
        }
        self.backlog.store(false, Ordering::SeqCst);
        // What ends its executor takes down the innocent that run beside it. With half of their recoveries used up they
        // run apart, and only the guilty one loses the other half.
        let suspect_from = i32::try_from(self.settings.max_recoveries.div_ceil(2)).unwrap_or(i32::MAX).max(1);
        let wanted = Wanted {
            served: &self.registry.served,
            suspect_from,
            suspects,
            queues: self.settings.queues.as_deref(),
            // Counts round; the sign bit stays out of it.
            turn: self.turn.fetch_add(1, Ordering::Relaxed) & i32::MAX,
        };
        let limit = i64::try_from(slots.len()).unwrap_or(i64::MAX);
        let claimed = match in_time(self.store.claim_due(&identity.claim_lease, &wanted, limit)).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(error = %crate::writer::Chain(&error), "a claim was not answered");
                own.orphans = true;
                return None;
            }
        };
        crash_point("after-claim");
        if suspects {
            let now = Instant::now();
            own.suspects.extend(claimed.iter().map(|workflow| (Arc::clone(&workflow.workflow_id), now)));
        }
        let all = claimed.len() == slots.len();
        if !claimed.is_empty()
            && let Err(error) = self.run_claimed(identity, claimed, &mut slots).await
        {
            tracing::warn!(error = %crate::writer::Chain(&error), "histories can't be read yet");
            own.orphans = true;
            return None;
        }
        Some(if all { Claimed::All } else { Claimed::Fewer })
    }

    /// Loads the histories, page by page, and drives each workflow.
    async fn run_claimed(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        claimed: Vec<ClaimedWorkflow>,
        slots: &mut Vec<tokio::sync::OwnedSemaphorePermit>,
    ) -> Result<()> {
        for page in claimed.chunks(HISTORY_PAGE) {
            // The first claim of a workflow finds nothing recorded.
            let begun = page.iter().filter(|workflow| workflow.epoch > 1);
            let ids: Vec<Arc<str>> = begun.map(|workflow| Arc::clone(&workflow.workflow_id)).collect();
            let mut histories = match ids.is_empty() {
                true => HashMap::new(),
                false => in_time(self.store.load_histories(&ids)).await?,
            };
            crash_point("in-recovery");
            for workflow in page {
                let rows = histories.remove(&workflow.workflow_id).unwrap_or_default();
                if let Some(slot) = slots.pop() {
                    self.run_one(identity, workflow, rows, slot);
                }
            }
        }
        Ok(())
    }

    fn run_one(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        workflow: &ClaimedWorkflow,
        rows: HistoryRows,
        slot: tokio::sync::OwnedSemaphorePermit,
    ) {
        // The claim asked for served names only.
        let Some(entry) = self.registry.get(&workflow.name, workflow.version) else { return };
        {
            let mut tally = lock(&self.tally);
            tally.workflows += 1;
            tally.steps += rows.steps.len();
            if tally.ids.len() < TALLY_IDS {
                tally.ids.push(workflow.workflow_id.to_string());
            }
        }
        let job = Job {
            workflow_id: Arc::clone(&workflow.workflow_id),
            entry,
            epoch: workflow.epoch,
            seed: workflow.seed,
            attempt: workflow.attempt,
            claimed: true,
            input: workflow.input.clone(),
            history: History::new(rows),
            recovered: workflow.epoch > 1,
            identity: Arc::clone(identity),
            slot,
        };
        // Known as running before the next look for orphans.
        let starting = self.running.starting(&workflow.workflow_id);
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let mut run = std::pin::pin!(drive(engine, job));
            let first = futures_util::future::poll_immediate(&mut run).await;
            drop(starting);
            if first.is_none() {
                run.await;
            }
        });
    }

    /// Somebody took a workflow away from this executor: find out which.
    async fn stop_what_was_taken(&self, identity: &Arc<Identity>) {
        let running = self.running.all();
        let ids: Vec<Arc<str>> = running.iter().map(|run| Arc::clone(&run.context.workflow_id)).collect();
        let taken = match in_time(self.store.taken_away(&identity.executor_id, &ids)).await {
            Ok(taken) => taken,
            Err(error) => {
                // Their next write finds out.
                tracing::warn!(%error, "can't look which workflows were taken away");
                return;
            }
        };
        for run in running {
            if let Some((_, cancelled)) = taken.iter().find(|(id, _)| **id == *run.context.workflow_id) {
                run.context.stop.request(if *cancelled { StopReason::Cancelled } else { StopReason::Fenced });
            }
        }
    }

    /// Says once a minute what waits for a build that has it.
    async fn report_unserved(&self, own: &mut State) {
        if Instant::now() < own.unserved_at {
            return;
        }
        own.unserved_at = Instant::now() + Duration::from_secs(60);
        if let Ok(unserved) = in_time(self.store.unserved(&self.registry.served)).await {
            for (name, version, count) in unserved {
                tracing::warn!(
                    name,
                    version,
                    workflows = count,
                    "pending workflows have a name and version that this program does not: run a build that has them, and \
                     name a crate that only holds workflows (`use my_workflows as _;`)"
                );
            }
        }
    }
}

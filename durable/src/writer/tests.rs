//! Flushes over a connection that answers what a database may answer, in the order of a script.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex as StdMutex, MutexGuard};

use async_trait::async_trait;

use super::*;
use crate::codec::{Codec, Data, Outcome, Payload};
use crate::ids::StepKey;
use crate::model::{SettleOp, Site, StartOp, StepOp, WorkflowStatus};
use crate::store::write::{Inspected, Renewal, Tally};
use crate::store::{Result, StoreErrorKind};

/// What happens to one `send`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    /// It is applied and answered.
    Answer,
    /// It is applied, and the reply is lost.
    LoseReply,
    /// Nothing is written.
    Refuse(StoreErrorKind),
}

/// The rows behind the connection.
#[derive(Default)]
struct Database {
    script: VecDeque<Turn>,
    steps: HashMap<(String, i32), StepRecord>,
    workflows: HashMap<String, WorkflowState>,
    /// Write ids of rows that no statement may hold.
    bad: Vec<i64>,
    lease_epoch: i32,
    interruptions: i64,
    /// Rows of each `send`, and whether conflicts were tolerated.
    sends: Vec<(usize, bool)>,
    inspections: usize,
    resets: usize,
}

/// Shared by the test and the connection.
#[derive(Clone, Default)]
struct Shared(Arc<StdMutex<Database>>);

impl Shared {
    fn get(&self) -> MutexGuard<'_, Database> {
        self.0.lock().unwrap()
    }

    fn script(&self, turns: &[Turn]) {
        self.get().script.extend(turns);
    }

    /// A running workflow of ours.
    fn with_workflow(self, id: &str) -> Self {
        self.get().workflows.insert(id.to_owned(), state(WorkflowStatus::Running, 1, 0));
        self
    }

    async fn flush(&self, pending: Vec<Pending>, health: &Health) {
        let mut connection = Fake { database: self.clone(), interruptions: 0 };
        for batch in batch::split(pending.into_iter()) {
            flush::flush(&mut connection, batch, health).await;
        }
    }
}

fn state(status: WorkflowStatus, epoch: i32, write_id: i64) -> WorkflowState {
    WorkflowState { name: "w".into(), status, reason: None, error_message: None, epoch, write_id }
}

/// A connection of a writer whose lease has epoch 0.
struct Fake {
    database: Shared,
    interruptions: i64,
}

impl Fake {
    /// Atomically, as one statement: what was accepted, or a conflict or refused value and nothing at all.
    fn apply(&self, ops: &[Op], tolerate: bool) -> Result<Tally> {
        let mut database = self.database.get();
        if database.lease_epoch != 0 || database.interruptions != self.interruptions {
            return Ok(Tally::default());
        }
        let owned = |database: &Database, id: &str, epoch| {
            database.workflows.get(id).is_some_and(|row| row.status == WorkflowStatus::Running && row.epoch == epoch)
        };
        for op in ops {
            let Op::Step(op) = op else { continue };
            if database.bad.contains(&op.write_id) {
                return Err(StoreError::new(StoreErrorKind::Data, "a value is refused"));
            }
            if !tolerate && database.steps.contains_key(&(op.workflow_id.to_string(), op.key.index)) {
                return Err(StoreError::new(StoreErrorKind::Conflict, "a key is taken"));
            }
        }
        let mut tally = Tally::default();
        for op in ops {
            match op {
                Op::Step(op) => {
                    let key = (op.workflow_id.to_string(), op.key.index);
                    if owned(&database, &op.workflow_id, op.epoch) && !database.steps.contains_key(&key) {
                        database.steps.insert(key, record(op.write_id, &op.outcome));
                        tally.steps += 1;
                    }
                }
                Op::Settle(op) if owned(&database, &op.workflow_id, op.epoch) => {
                    let row = state(op.status, op.epoch, op.write_id);
                    database.workflows.insert(op.workflow_id.to_string(), row);
                    tally.settles += 1;
                }
                Op::Start(op) if !database.workflows.contains_key(&*op.workflow_id) => {
                    let row = state(WorkflowStatus::Running, 1, op.write_id);
                    database.workflows.insert(op.workflow_id.to_string(), row);
                    tally.starts += 1;
                }
                _ => {}
            }
        }
        Ok(tally)
    }
}

#[async_trait]
impl WriterConnection for Fake {
    async fn send(&mut self, ops: &[Op], tolerate: bool) -> Result<Tally> {
        let turn = {
            let mut database = self.database.get();
            database.sends.push((ops.len(), tolerate));
            database.script.pop_front().unwrap_or(Turn::Answer)
        };
        match turn {
            Turn::Answer => self.apply(ops, tolerate),
            Turn::LoseReply => {
                self.apply(ops, tolerate)?;
                Err(StoreError::new(StoreErrorKind::Unavailable, "the reply was lost"))
            }
            Turn::Refuse(kind) => Err(StoreError::new(kind, "not now")),
        }
    }

    async fn inspect(&mut self, ops: &[Op]) -> Result<Vec<Inspected>> {
        let mut database = self.database.get();
        database.inspections += 1;
        let found = ops.iter().map(|op| Inspected {
            workflow: database.workflows.get(&**op.workflow_id()).cloned(),
            step: match op {
                Op::Step(op) => database.steps.get(&(op.workflow_id.to_string(), op.key.index)).cloned(),
                _ => None,
            },
        });
        Ok(found.collect())
    }

    async fn renew(&mut self) -> Result<Renewal> {
        let database = self.database.get();
        let before = std::mem::replace(&mut self.interruptions, database.interruptions);
        Ok(match database.lease_epoch {
            0 if before == database.interruptions => Renewal::Held,
            0 => Renewal::Interrupted,
            _ => Renewal::Lost,
        })
    }

    async fn reset(&mut self) {
        self.database.get().resets += 1;
    }
}

fn outcome(value: i32) -> Outcome {
    Outcome::Done(Payload { codec: Codec::Json.id(), data: Data::Text(value.to_string()) })
}

fn record(write_id: i64, outcome: &Outcome) -> StepRecord {
    StepRecord {
        branch: "".into(),
        step_index: 0,
        seq: 1,
        kind: "step".into(),
        step_name: "s".into(),
        outcome: Ok(outcome.clone()),
        args_hash: None,
        call_site: String::new(),
        definition_site: String::new(),
        write_id,
    }
}

fn step(id: &str, index: i32, write_id: i64) -> Op {
    Op::Step(StepOp {
        workflow_id: id.into(),
        epoch: 1,
        key: StepKey { branch: "".into(), index },
        seq: 1,
        kind: "step",
        site: Arc::new(Site { step_name: "s".into(), call: "".into(), definition: "".into() }),
        outcome: outcome(index),
        args_hash: None,
        attempts: 1,
        started_at: 0,
        completed_at: 0,
        write_id,
    })
}

fn settle(id: &str, write_id: i64) -> Op {
    Op::Settle(SettleOp {
        workflow_id: id.into(),
        epoch: 1,
        status: WorkflowStatus::Done,
        reason: None,
        error_message: None,
        result: Some(outcome(0)),
        write_id,
    })
}

fn start(id: &str, write_id: i64) -> Op {
    let input = Payload { codec: Codec::Json.id(), data: Data::Text("{}".into()) };
    Op::Start(StartOp {
        workflow_id: id.into(),
        name: "w",
        version: 1,
        queue: None,
        run_here: true,
        seed: 0,
        input,
        write_id,
    })
}

/// Counts refusals that whoever does not wait is told of.
#[derive(Default)]
struct Told(AtomicUsize);

impl OnFence for Told {
    fn fenced(&self, _state: Option<&WorkflowState>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Flushes the operations together; their verdicts, and how often a fence was told.
async fn verdicts(database: &Shared, ops: Vec<Op>, health: &Health) -> (Vec<Verdict>, usize) {
    let told = Arc::new(Told::default());
    let (pending, replies): (Vec<_>, Vec<_>) = ops
        .into_iter()
        .map(|op| {
            let (reply, verdict) = oneshot::channel();
            (Pending { op, on_fence: Some(Arc::clone(&told) as Arc<dyn OnFence>), reply, give_up_at: None }, verdict)
        })
        .unzip();
    database.flush(pending, health).await;
    let mut verdicts = Vec::new();
    for mut reply in replies {
        verdicts.push(reply.try_recv().unwrap());
    }
    (verdicts, told.0.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_lost_reply_is_told_from_a_lost_lease() {
    let database = Shared::default().with_workflow("a");
    database.script(&[Turn::LoseReply]);
    let health = Health::default();
    let (answers, fenced) = verdicts(&database, vec![step("a", 0, 7), step("a", 1, 8)], &health).await;
    assert!(answers.iter().all(|verdict| matches!(verdict, Verdict::Written)), "{answers:?}");
    assert!(!health.is_lost() && fenced == 0);
    let database = database.get();
    assert_eq!((database.steps[&("a".into(), 0)].write_id, database.steps[&("a".into(), 1)].write_id), (7, 8));
    // Sent, found taken, sent tolerating that, and told as its own by the write ids.
    assert_eq!(database.sends, [(2, false), (2, false), (2, true)]);
    assert_eq!((database.inspections, database.resets), (1, 1));
}

#[tokio::test]
async fn a_lost_reply_of_an_end_is_no_fence() {
    let database = Shared::default().with_workflow("a");
    database.script(&[Turn::LoseReply]);
    let (answers, fenced) = verdicts(&database, vec![settle("a", 7)], &Health::default()).await;
    assert!(matches!(answers[..], [Verdict::Written]), "{answers:?}");
    assert_eq!(fenced, 0);
    assert_eq!(database.get().workflows["a"].status, WorkflowStatus::Done);
}

#[tokio::test]
async fn a_lost_reply_of_a_start_is_not_taken_for_another_run_of_that_id() {
    let database = Shared::default().with_workflow("theirs");
    database.script(&[Turn::LoseReply]);
    let (answers, _) = verdicts(&database, vec![start("mine", 7), start("theirs", 8)], &Health::default()).await;
    assert!(matches!(answers[..], [Verdict::Written, Verdict::Exists]), "{answers:?}");
}

#[tokio::test]
async fn deadlocks_and_serialization_failures_are_retried_without_asking_who_owns() {
    for kind in [StoreErrorKind::Retry, StoreErrorKind::Unavailable] {
        let database = Shared::default().with_workflow("a");
        for index in 0..3 {
            database.script(&[Turn::Refuse(kind), Turn::Refuse(kind)]);
            let health = Health::default();
            let (answers, fenced) = verdicts(&database, vec![step("a", index, 7)], &health).await;
            assert!(matches!(answers[..], [Verdict::Written]), "{answers:?}");
            assert!(!health.is_lost() && fenced == 0);
        }
        let database = database.get();
        assert_eq!((database.sends.len(), database.steps.len()), (9, 3));
        assert_eq!(database.inspections, 0, "{kind:?} says nothing about the owner");
        // A refused transaction leaves the connection good.
        assert_eq!(database.resets, if kind == StoreErrorKind::Retry { 0 } else { 6 });
    }
}

#[tokio::test]
async fn a_refused_row_fails_none_of_its_neighbours() {
    let database = Shared::default().with_workflow("a").with_workflow("b").with_workflow("c");
    database.get().bad = vec![8];
    let ops = vec![step("a", 0, 7), step("b", 0, 8), step("c", 0, 9)];
    let (answers, fenced) = verdicts(&database, ops, &Health::default()).await;
    let [Verdict::Written, Verdict::Refused(error), Verdict::Written] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(error.kind, StoreErrorKind::Data);
    assert_eq!(fenced, 0);
    assert_eq!(database.get().steps.len(), 2);
}

#[tokio::test]
async fn a_key_that_another_took_is_adopted_by_everybody() {
    let database = Shared::default().with_workflow("a").with_workflow("b");
    database.get().steps.insert(("a".into(), 0), record(99, &outcome(42)));
    let (answers, fenced) = verdicts(&database, vec![step("a", 0, 7), step("b", 0, 8)], &Health::default()).await;
    let [Verdict::Taken(stored), Verdict::Written] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((stored.write_id, &stored.outcome), (99, &Ok(outcome(42))));
    assert_eq!(fenced, 0);
    assert_eq!(database.get().steps[&("a".into(), 0)].write_id, 99, "an outcome is never replaced");
}

#[tokio::test]
async fn a_raised_interruption_count_stops_only_the_workflow_that_was_taken() {
    let database = Shared::default().with_workflow("a").with_workflow("b");
    database.get().interruptions = 1;
    database.get().workflows.insert("b".into(), state(WorkflowStatus::Running, 2, 0));
    let health = Health::default();
    let (answers, fenced) = verdicts(&database, vec![step("a", 0, 7), step("b", 0, 8)], &health).await;
    let [Verdict::Written, Verdict::Fenced(Some(row))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((row.epoch, fenced), (2, 1));
    assert!(!health.is_lost());
    assert_eq!(database.get().steps.keys().collect::<Vec<_>>(), [&("a".to_owned(), 0)]);
}

#[tokio::test]
async fn a_lost_lease_fences_everything_and_writes_nothing() {
    let database = Shared::default().with_workflow("a").with_workflow("b");
    database.get().lease_epoch = 1;
    let health = Health::default();
    let ops = vec![step("a", 0, 7), settle("b", 8), start("c", 9)];
    let (answers, fenced) = verdicts(&database, ops, &health).await;
    assert!(answers.iter().all(|verdict| matches!(verdict, Verdict::Fenced(_))), "{answers:?}");
    assert!(health.is_lost());
    assert_eq!(fenced, 3);
    assert!(database.get().steps.is_empty() && !database.get().workflows.contains_key("c"));
    assert_eq!(database.get().workflows["b"].status, WorkflowStatus::Running);
}

#[tokio::test]
async fn what_committed_before_the_lease_was_lost_still_counts() {
    let database = Shared::default().with_workflow("a");
    database.script(&[Turn::LoseReply]);
    // The takeover comes between the commit and the next try.
    let mut connection = Fake { database: database.clone(), interruptions: 0 };
    let (reply, mut verdict) = oneshot::channel();
    let op = step("a", 0, 7);
    connection.send(std::slice::from_ref(&op), false).await.unwrap_err();
    database.get().lease_epoch = 1;
    let health = Health::default();
    flush::flush(&mut connection, Batch::of(Pending { op, on_fence: None, reply, give_up_at: None }), &health).await;
    assert!(matches!(verdict.try_recv(), Ok(Verdict::Written)));
    assert!(health.is_lost());
}

#[tokio::test]
async fn an_abandoned_executor_stops_trying() {
    let database = Shared::default().with_workflow("a");
    database.script(&[Turn::Refuse(StoreErrorKind::Unavailable); 100]);
    let health = Arc::new(Health::default());
    let (reply, verdict) = oneshot::channel();
    let pending = Pending { op: step("a", 0, 7), on_fence: None, reply, give_up_at: None };
    let flushing = {
        let (database, health) = (database.clone(), Arc::clone(&health));
        tokio::spawn(async move { database.flush(vec![pending], &health).await })
    };
    while database.get().sends.len() < 2 {
        tokio::task::yield_now().await;
    }
    health.abandon();
    flushing.await.unwrap();
    assert!(verdict.await.is_err(), "nobody may take it for written");
    assert!(database.get().steps.is_empty());
}

#[tokio::test]
async fn small_operations_do_not_wait_for_large_ones_of_other_workflows() {
    let database = Shared::default().with_workflow("large").with_workflow("other");
    let writer = Writer::start(Box::new(Fake { database: database.clone(), interruptions: 0 }), Arc::default());
    let large = |index, write_id| {
        let Op::Step(mut op) = step("large", index, write_id) else { unreachable!() };
        op.outcome = Outcome::Done(Payload { codec: 1, data: Data::Text("7".repeat(300 << 10)) });
        Op::Step(op)
    };
    let small = (0..5).map(|index| step("other", index, i64::from(index)));
    let ops = [large(0, 10), large(1, 11)].into_iter().chain(small).chain([step("large", 2, 12), settle("large", 13)]);
    let mut replies = Vec::new();
    for op in ops {
        let (reply, verdict) = oneshot::channel();
        writer.enqueue(Pending { op, on_fence: None, reply, give_up_at: None });
        replies.push(verdict);
    }
    for reply in replies {
        assert!(matches!(reply.await, Ok(Verdict::Written)));
    }
    let database = database.get();
    // The small ones together and first; then the others in their order, the large ones each in its turn.
    assert_eq!(database.sends, [(5, false), (1, false), (1, false), (2, false)]);
    assert_eq!(database.workflows["large"].status, WorkflowStatus::Done);
}

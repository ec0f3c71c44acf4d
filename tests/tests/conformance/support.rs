//! What the cases share: a runtime with short times, a probe that the workflows of a test report to, and the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use durable::{Builder, Event, Runtime, Workflow, WorkflowHandle, WorkflowStatus};
use durable_tests::{Database, Store};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Decode, PgConnection, Row, SqliteConnection};
use tokio::sync::Notify;

/// Nothing here takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the workflows of one test report to and wait for; clones are the same one. Not durable, and so also the way
/// in which a test changes the code under a running workflow.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    hits: BTreeMap<String, usize>,
    open: BTreeSet<String>,
    notes: Vec<String>,
    events: Vec<String>,
}

/// The probe of the test that runs this code.
#[track_caller]
pub(crate) fn probe() -> Probe {
    Probe::clone(&durable::state::<Probe>())
}

impl Probe {
    /// Counts a side effect; gives back the count.
    pub(crate) fn hit(&self, what: impl Into<String>) -> usize {
        let count = {
            let mut state = self.lock();
            let count = state.hits.entry(what.into()).or_default();
            *count += 1;
            *count
        };
        self.0.changed.notify_waiters();
        count
    }

    pub(crate) fn hits(&self, what: &str) -> usize {
        self.lock().hits.get(what).copied().unwrap_or_default()
    }

    /// Opens a gate or throws a switch.
    pub(crate) fn open(&self, gate: &str) {
        self.lock().open.insert(gate.to_owned());
        self.0.changed.notify_waiters();
    }

    pub(crate) fn close(&self, gate: &str) {
        self.lock().open.remove(gate);
    }

    pub(crate) fn is_open(&self, gate: &str) -> bool {
        self.lock().open.contains(gate)
    }

    /// Counts the arrival, and waits for the gate to be opened.
    pub(crate) async fn gate(&self, gate: &str) {
        self.hit(gate);
        self.until(&format!("gate `{gate}`"), |probe| probe.is_open(gate)).await;
    }

    /// Waits until a side effect has happened so often.
    pub(crate) async fn reached(&self, what: &str, count: usize) {
        self.until(&format!("{count} × `{what}`"), |probe| probe.hits(what) >= count).await;
    }

    pub(crate) fn note(&self, note: impl Display) {
        self.lock().notes.push(note.to_string());
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.lock().notes.clone()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.lock().events.clone()
    }

    /// Waits for an event that was told.
    pub(crate) async fn told(&self, event: &str) {
        self.until(&format!("event `{event}`"), |probe| probe.lock().events.iter().any(|told| told == event)).await;
    }

    /// Waits until a workflow has stopped running here, for whatever reason.
    pub(crate) async fn until_ended(&self, id: &str) {
        let start = format!("{id} ended ");
        let ended = |probe: &Self| probe.lock().events.iter().any(|event| event.starts_with(&start));
        self.until(&format!("end of `{id}`"), ended).await;
    }

    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            loop {
                let changed = self.0.changed.notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            panic!("{what} did not come");
        }
    }

    fn event(&self, event: &Event<'_>) {
        let line = match event {
            Event::Started { workflow_id, recovered, recorded_steps, .. } => {
                format!("{workflow_id} started recovered={recovered} steps={recorded_steps}")
            }
            Event::Checkpoint { workflow_id, branch, step_index, step_name, is_error, .. } => {
                format!("{workflow_id} checkpoint {branch}/{step_index} {step_name} error={is_error}")
            }
            Event::Replayed { workflow_id, branch, step_index, step_name, .. } => {
                format!("{workflow_id} replayed {branch}/{step_index} {step_name}")
            }
            Event::Retry { workflow_id, step_name, attempt, error, .. } => {
                format!("{workflow_id} retry {step_name} {attempt} {error}")
            }
            Event::Ended { workflow_id, status, .. } => format!("{workflow_id} ended {status}"),
            other => format!("{other:?}"),
        };
        self.lock().events.push(line);
        self.0.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A runtime whose waits are short; its lease is not where it need not be, since a busy machine may be slow.
pub(crate) fn quick(database: &Database, probe: &Probe) -> Builder {
    let (state, events) = (probe.clone(), probe.clone());
    Builder::new()
        .url(database.url())
        .heartbeat(Duration::from_millis(100))
        .grace(Duration::from_millis(300))
        // Behind a pooler a takeover has to wait for it.
        .lease(Duration::from_secs(if database.is_pooled() { 3 } else { 20 }))
        .poll(Duration::from_millis(50))
        .pool_size(2)
        .state(state)
        .on_event(move |event| events.event(event))
}

/// A runtime, and the probe of its workflows.
pub(crate) async fn begin(database: &Database) -> (Runtime, Probe) {
    let probe = Probe::default();
    (quick(database, &probe).build().await.unwrap(), probe)
}

/// Ends a runtime as a crash would, and continues its workflows with another.
pub(crate) async fn crash_and_recover(database: &Database, probe: &Probe, runtime: Runtime) -> Runtime {
    drop(runtime);
    recovered(database, probe).await
}

/// Another runtime, that has taken over from those that died.
pub(crate) async fn recovered(database: &Database, probe: &Probe) -> Runtime {
    let next = quick(database, probe).build().await.unwrap();
    next.recover().await.unwrap();
    next
}

/// A handle on a run, by its id alone.
pub(crate) async fn reach<W: Workflow>(runtime: &Runtime, id: &str) -> WorkflowHandle<W> {
    runtime.enter(async { durable::handle::<W>(id) }).await
}

/// Waits for a status, however it comes.
pub(crate) async fn becomes<W: Workflow>(run: &WorkflowHandle<W>, status: WorkflowStatus) {
    let wait = async {
        while run.status().await.unwrap() != status {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, wait).await.is_err() {
        panic!("`{}` did not become {status}: it is {:?}", run.id(), run.status().await);
    }
}

/// The rows of a query, each as one line with `|` between the columns and `-` for NULL. The tables are named without
/// a schema on either store.
pub(crate) async fn rows(database: &Database, sql: &str) -> Vec<String> {
    match database.store() {
        Store::Sqlite => {
            let mut connection = sqlite(database).await;
            let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await.unwrap();
            connection.close().await.unwrap();
            rows.iter().map(line).collect()
        }
        Store::Postgres => {
            let mut connection = postgres(database).await;
            // The simple protocol gives every value as text.
            let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await.unwrap();
            connection.close().await.unwrap();
            rows.iter().map(line).collect()
        }
    }
}

/// Changes rows by hand.
pub(crate) async fn execute(database: &Database, sql: &str) {
    match database.store() {
        Store::Sqlite => {
            let mut connection = sqlite(database).await;
            sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        }
        Store::Postgres => {
            let mut connection = postgres(database).await;
            sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        }
    }
}

/// A pending workflow as another build would have left it; without an input if there is none.
pub(crate) async fn insert_pending(database: &Database, id: &str, name: &str, input: Option<&str>) {
    let times = match database.store() {
        Store::Sqlite => "unixepoch() * 1000000",
        Store::Postgres => "now()",
    };
    execute(
        database,
        &format!(
            "INSERT INTO workflows (workflow_id, name, version, status, queue, seed, write_id, created_at, updated_at)
             VALUES ('{id}', '{name}', 1, 'pending', 'default', 7, 7, {times}, {times})"
        ),
    )
    .await;
    if let Some(input) = input {
        let input = input.replace('\'', "''");
        execute(
            database,
            &format!(
                "INSERT INTO workflow_payloads (workflow_id, part, codec, payload) VALUES ('{id}', 'input', 1, '{input}')"
            ),
        )
        .await;
    }
}

/// Waits until a query gives these rows.
pub(crate) async fn rows_become(database: &Database, sql: &str, expected: &[&str]) {
    let mut last = Vec::new();
    let wait = async {
        loop {
            last = rows(database, sql).await;
            if last == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let came = tokio::time::timeout(PATIENCE, wait).await.is_ok();
    assert!(came, "{sql}: {last:?} did not become {expected:?}");
}

async fn sqlite(database: &Database) -> SqliteConnection {
    let options: SqliteConnectOptions = database.url().parse().unwrap();
    options.busy_timeout(Duration::from_secs(20)).connect().await.unwrap()
}

async fn postgres(database: &Database) -> PgConnection {
    let mut connection = PgConnection::connect(database.direct_url()).await.unwrap();
    sqlx::raw_sql("SET search_path = durable").execute(&mut connection).await.unwrap();
    connection
}

fn line<R: Row>(row: &R) -> String
where
    usize: sqlx::ColumnIndex<R>,
    for<'r> Option<String>: Decode<'r, R::Database>,
{
    let value = |at| row.try_get_unchecked::<Option<String>, _>(at).unwrap().unwrap_or_else(|| "-".to_owned());
    (0..row.len()).map(value).collect::<Vec<_>>().join("|")
}

//! A database, a folder, and the victims that work there.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use durable_tests::Database;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tempfile::TempDir;

/// More than anything here takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Where one case happens.
pub(crate) struct Scene {
    url: String,
    /// Behind a pooler a takeover waits for the lease: a short one, in milliseconds.
    lease: Option<u32>,
    rows: Rows,
    folder: TempDir,
    victims: AtomicU32,
}

enum Rows {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

impl Scene {
    pub(crate) fn new(database: &Database) -> Self {
        let lease = database.is_pooled().then_some(3_000);
        Self { url: database.url().to_owned(), lease, ..Self::at(database.direct_url()) }
    }

    pub(crate) fn at(url: &str) -> Self {
        let rows = if url.starts_with("postgres") {
            let options =
                PgConnectOptions::from_str(url).unwrap().application_name("test").options([("search_path", "durable")]);
            Rows::Postgres(PgPoolOptions::new().max_connections(3).connect_lazy_with(options))
        } else {
            let options = SqliteConnectOptions::from_str(url).unwrap().busy_timeout(LIMIT);
            Rows::Sqlite(SqlitePoolOptions::new().max_connections(2).connect_lazy_with(options))
        };
        Self {
            url: url.to_owned(),
            lease: None,
            rows,
            folder: tempfile::tempdir().unwrap(),
            victims: AtomicU32::new(0),
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.rows, Rows::Postgres(_))
    }

    /// The Postgres pool of the test.
    pub(crate) fn postgres(&self) -> &PgPool {
        match &self.rows {
            Rows::Postgres(pool) => pool,
            Rows::Sqlite(_) => panic!("this case is on Postgres"),
        }
    }

    pub(crate) fn effects_file(&self) -> PathBuf {
        self.folder.path().join("effects")
    }

    pub(crate) fn open_gate(&self) {
        File::create(self.folder.path().join("gate")).unwrap();
    }

    /// Lines of the effects: workflow, place, pid.
    pub(crate) fn effects(&self) -> Vec<[String; 3]> {
        let content = std::fs::read_to_string(self.effects_file()).unwrap_or_default();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>().try_into().unwrap();
        content.lines().map(words).collect()
    }

    /// How often the body at a place began.
    pub(crate) fn count(&self, workflow: &str, place: &str) -> usize {
        self.effects().iter().filter(|[id, at, _]| id == workflow && at == place).count()
    }

    /// One column of text in the dialect that both databases share. Empty while there are no tables.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        self.try_texts(sql).await.unwrap_or_else(|error| panic!("`{sql}`: {error}"))
    }

    /// The same, where the database may be away.
    pub(crate) async fn try_texts(&self, sql: &str) -> sqlx::Result<Vec<String>> {
        let sql = AssertSqlSafe(sql.to_owned());
        let found = match &self.rows {
            Rows::Postgres(pool) => sqlx::query_scalar(sql).fetch_all(pool).await,
            Rows::Sqlite(pool) => sqlx::query_scalar(sql).fetch_all(pool).await,
        };
        match found {
            Err(sqlx::Error::Database(error))
                if error.code().is_some_and(|code| code == "42P01" || code == "14")
                    || error.message().starts_with("no such table") =>
            {
                Ok(Vec::new())
            }
            found => found,
        }
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let texts = self.texts(&format!("SELECT CAST(({sql}) AS text)")).await;
        texts.first().map_or(0, |text| text.parse().unwrap())
    }

    pub(crate) async fn status(&self, id: &str) -> String {
        let found = self.texts(&format!("SELECT status FROM workflows WHERE workflow_id = '{id}'")).await;
        found.into_iter().next().unwrap_or_default()
    }

    /// Waits for a workflow to be `done`, and gives its result as JSON.
    pub(crate) async fn result(&self, id: &str) -> String {
        eventually(&format!("workflow `{id}` is done"), LIMIT, async || self.status(id).await == "done").await;
        let sql = format!(
            "SELECT CAST(payload AS text) FROM workflow_payloads WHERE workflow_id = '{id}' AND part = 'result'"
        );
        self.texts(&sql).await.remove(0)
    }

    /// Waits until each of so many workflows is done and no more than that are there.
    pub(crate) async fn all_done(&self, workflows: i64) {
        let done = "SELECT count(*) FROM workflows WHERE status = 'done'";
        eventually("all workflows are done", LIMIT, async || self.number(done).await == workflows).await;
        assert_eq!(self.number("SELECT count(*) FROM workflows").await, workflows);
    }

    /// Waits until the server has ended what killed processes left in flight.
    pub(crate) async fn nothing_in_flight(&self) {
        if self.is_postgres() {
            let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'durable'";
            eventually("no session is left", LIMIT, async || self.number(sessions).await == 0).await;
        }
    }

    /// True if another process can write now; Postgres ends a statement whoever sleeps.
    pub(crate) async fn is_writable(&self) -> bool {
        if self.is_postgres() {
            return true;
        }
        let options = SqliteConnectOptions::from_str(&self.url).unwrap().busy_timeout(Duration::from_millis(200));
        let mut connection = options.connect().await.unwrap();
        let begun = sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK").execute(&mut connection).await;
        connection.close().await.unwrap();
        begun.is_ok()
    }

    /// One of many executors on the same queues, not started yet.
    pub(crate) fn hand(&self) -> Launch {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hand"));
        command.arg(&self.url).arg(self.effects_file());
        command.env_remove("DURABLE_CRASH_POINT");
        let n = self.victims.fetch_add(1, Ordering::Relaxed);
        Launch { command, out: self.folder.path().join(format!("hand.{n}.out")) }
    }

    /// A victim by this name, not started yet.
    pub(crate) fn victim(&self, name: &str) -> Launch {
        let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
        command.arg(&self.url).arg(self.effects_file()).args(["--name", name]);
        command.env_remove("DURABLE_CRASH_POINT");
        let n = self.victims.fetch_add(1, Ordering::Relaxed);
        let victim = Launch { command, out: self.folder.path().join(format!("{name}.{n}.out")) };
        match self.lease {
            Some(lease) => victim.flag("lease", lease),
            None => victim,
        }
    }
}

/// A victim to start.
pub(crate) struct Launch {
    command: Command,
    out: PathBuf,
}

impl Launch {
    pub(crate) fn flag(mut self, flag: &str, value: impl ToString) -> Self {
        self.command.arg(format!("--{flag}")).arg(value.to_string());
        self
    }

    /// `kind/id/count/steps/ms`.
    pub(crate) fn start(self, spec: &str) -> Self {
        self.flag("start", spec)
    }

    /// Dies at a crash point, the n-th time it comes there.
    pub(crate) fn dies_at(mut self, point: &str, n: u32) -> Self {
        self.command.env("DURABLE_CRASH_POINT", format!("{point}:{n}"));
        self
    }

    pub(crate) fn spawn(mut self) -> Victim {
        let out = File::create(&self.out).unwrap();
        self.command.stdout(out.try_clone().unwrap()).stderr(out);
        let child = self.command.spawn().unwrap();
        Victim { pid: Pid::from_child(&child), child, out: self.out }
    }
}

/// A running process; killed when dropped.
pub(crate) struct Victim {
    child: Child,
    pid: Pid,
    out: PathBuf,
}

impl Victim {
    pub(crate) fn pid(&self) -> String {
        self.pid.as_raw_nonzero().to_string()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// What it printed.
    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The signal that ended it, if it has ended.
    pub(crate) fn ended_by(&mut self) -> Option<i32> {
        let status = self.child.try_wait().unwrap()?;
        Some(status.signal().unwrap_or_else(|| panic!("the victim ended by itself ({status}):\n{}", self.output())))
    }

    /// Waits for the kill at its crash point.
    pub(crate) async fn dies(mut self) {
        eventually("the victim comes to its crash point", LIMIT, async || self.ended_by().is_some()).await;
    }

    /// Waits until it has done what its flags say, and serves.
    pub(crate) async fn is_ready(&mut self) {
        eventually("the victim is ready", LIMIT, async || {
            assert_eq!(self.ended_by(), None, "{}", self.output());
            self.output().ends_with("ready\n")
        })
        .await;
    }

    /// SIGTERM, and waits for its orderly end.
    pub(crate) async fn shuts_down(mut self) {
        self.is_ready().await;
        self.signal(Signal::TERM);
        let mut status = None;
        eventually("the victim shuts down", LIMIT, async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        assert!(status.unwrap().success(), "{status:?}:\n{}", self.output());
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("output of {}:\n{}", self.out.display(), self.output());
        }
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, limit: Duration, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

//! Settings of a runtime. Layer: top.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Runtime, set_default};
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::executor::{Engine, Hub, Settings};
use crate::model::QueueLimits;
use crate::registry::Registry;
use crate::store::{StoreOptions, Target, connect};
use crate::workflow::{EventHook, StateMap};

/// Settings of a runtime; each has a default that suits a program of one process.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let runtime = durable::Builder::new().url("sqlite::memory:").max_running(50).build().await?;
/// assert_eq!(runtime.recover().await?.to_string(), "recovered 0 workflows, 0 steps already recorded");
/// runtime.shutdown().await;
/// # Ok::<_, durable::Error>(())
/// # }).unwrap();
/// ```
#[must_use = "a builder does nothing until `build` or `init`"]
pub struct Builder {
    target: Option<Target>,
    schema: String,
    pool_size: u32,
    migrate: bool,
    settings: Settings,
    state: StateMap,
    hook: Option<EventHook>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("schema", &self.schema)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            target: None,
            schema: "durable".to_owned(),
            pool_size: 4,
            migrate: true,
            settings: Settings::default(),
            state: StateMap::new(),
            hook: None,
        }
    }

    /// The database: `postgres://…`, `sqlite://file.db` or `sqlite::memory:`. Default: the environment variable
    /// `DURABLE_DATABASE_URL`, else `DATABASE_URL`, else `sqlite://durable.db`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.target = Some(Target::Url(url.into()));
        self
    }

    /// A Postgres pool of the program's own, used for claims and reads. Writers and heartbeat have three connections
    /// of their own, opened with the pool's options. Behind a transaction pooler those need `extra_float_digits(None)`.
    /// Its sessions should have `synchronous_commit` on, or a crash of the server can undo a cancel.
    pub fn pool(mut self, pool: sqlx::PgPool) -> Self {
        self.target = Some(Target::Pool(pool));
        self
    }

    /// The Postgres schema that holds the tables. Default `durable`; ignored on SQLite.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Connections in the pool for claims and reads, besides the three for writers and heartbeat. Default 4; zero
    /// counts as 1. Postgres only.
    pub fn pool_size(mut self, connections: u32) -> Self {
        self.pool_size = connections.max(1);
        self
    }

    /// Whether to bring the tables to this build's version at start. Default true; with false, a database of another
    /// version is an error that says what to do.
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// The executor's name, for people. Default `durable`; its id is new for every process incarnation.
    pub fn executor_name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// A value for [`state`](crate::state), by its type; a second of one type replaces the first.
    pub fn state<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.state.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// A hook for events, called after their commit. It must not block.
    pub fn on_event(mut self, hook: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// How long an executor whose lock is free may be without a heartbeat before it counts as dead. Default 3 s, at
    /// least two heartbeats. Behind a transaction pooler there is no lock, and only the [`lease`](Self::lease) counts.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// How long an executor may be without a heartbeat before it counts as dead whatever its lock says, and how long
    /// its own workflows run on without one. Default 30 s, at least the grace. All executors of a database should
    /// have the same.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// The time between heartbeats. Default 1 s.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.settings.heartbeat = every;
        self
    }

    /// How often the end of a run in another process is looked for. Default 1 s.
    pub fn poll(mut self, every: Duration) -> Self {
        self.settings.poll = every;
        self
    }

    /// How long the body of a step may run on after a cancel or a shutdown. Default 5 s; zero drops it at once.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.cancel_grace = grace;
        self
    }

    /// How long a start, a cancel or a resume waits for a database that is away. Default 30 s. Recorded work is not
    /// bound by it: its writes wait as long as it takes.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.settings.start_timeout = timeout;
        self
    }

    /// How often a workflow may be recovered from a dead executor without recording a step in between. Beyond that it
    /// is `dead`. Default 20; zero means that it is never recovered.
    pub fn max_recoveries(mut self, recoveries: u32) -> Self {
        self.settings.max_recoveries = recoveries;
        self
    }

    /// Workflows that run at once in this process. Default 1,000; what is above waits as `pending`.
    pub fn max_running(mut self, workflows: usize) -> Self {
        self.settings.max_running = workflows;
        self
    }

    /// Names a queue and sets its limits at each start: the program's word counts over what was set before. See
    /// [`QueueLimits`]; [`Client::set_queue`] changes them while executors run.
    pub fn queue(mut self, name: impl Into<String>, limits: QueueLimits) -> Self {
        self.settings.declared.insert(name.into(), limits);
        self
    }

    /// The queues to claim from; `default` holds the work without a queue. Default: every queue. With none this process
    /// runs nothing: it only submits.
    pub fn queues<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.settings.queues = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Whether to listen for new work of other processes: LISTEN on Postgres, a look at the file every 20 ms on SQLite.
    /// Default true. Without it, and behind a transaction pooler, such work is found with the next heartbeat.
    pub fn listen(mut self, listen: bool) -> Self {
        self.settings.listen = listen;
        self
    }

    /// The size in bytes from which an input or outcome is refused. Default 16 MiB.
    pub fn payload_max(mut self, bytes: usize) -> Self {
        self.settings.limits.payload_max = bytes;
        self
    }

    /// The size in bytes from which an input or outcome is logged as large. Default 256 KiB.
    pub fn payload_warn(mut self, bytes: usize) -> Self {
        self.settings.limits.payload_warn = bytes;
        self
    }

    /// Starts a runtime.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for settings that are wrong; [`ErrorKind::Unavailable`],
    /// [`ErrorKind::PermissionDenied`] and [`ErrorKind::Schema`] as the database answers.
    pub async fn build(self) -> Result<Runtime, Error> {
        self.settings.check()?;
        let registry = Registry::collect()?;
        let target = self.target.unwrap_or_else(|| Target::Url(url_of_environment()));
        let options = StoreOptions { target, schema: self.schema, pool_size: self.pool_size, migrate: self.migrate };
        let (settings, state, hook) = (self.settings, self.state, self.hook);
        // In a task of its own: a start that is given up half-way must not leave a transaction behind.
        let task = tokio::spawn(async move {
            let store = connect(&options).await?;
            Engine::begin(settings, store, registry, state, hook).await.map(Runtime::new)
        });
        match task.await {
            Ok(runtime) => runtime,
            Err(error) => Err(Error::new(ErrorKind::ShuttingDown, "the start was interrupted").with_source(error)),
        }
    }

    /// Reaches the database and runs nothing. Of the settings, those of the database, of payloads and of waiting count.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub async fn client(self) -> Result<Client, Error> {
        self.settings.check()?;
        let target = self.target.unwrap_or_else(|| Target::Url(url_of_environment()));
        let options = StoreOptions { target, schema: self.schema, pool_size: self.pool_size, migrate: self.migrate };
        let settings = self.settings;
        let task =
            tokio::spawn(async move { Ok::<_, Error>(Client::of(Hub::new(settings, connect(&options).await?))) });
        match task.await {
            Ok(client) => client,
            Err(error) => Err(Error::new(ErrorKind::ShuttingDown, "the start was interrupted").with_source(error)),
        }
    }

    /// Starts a runtime and makes it the process default.
    ///
    /// # Errors
    /// As [`build`](Self::build); and [`ErrorKind::Configuration`] if there is a default runtime already.
    pub async fn init(self) -> Result<Runtime, Error> {
        let runtime = self.build().await?;
        if set_default(&runtime) {
            return Ok(runtime);
        }
        runtime.shutdown().await;
        Err(Error::new(
            ErrorKind::Configuration,
            "this process has a default runtime already; use `Builder::build` and `Runtime::enter` for another",
        ))
    }
}

fn url_of_environment() -> String {
    let variable = |name| std::env::var(name).ok().filter(|url| !url.trim().is_empty());
    variable("DURABLE_DATABASE_URL")
        .or_else(|| variable("DATABASE_URL"))
        .unwrap_or_else(|| "sqlite://durable.db".to_owned())
}

//! The runtime: what a program starts, and how it ends.
//!
//! Layer: top.

mod builder;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

pub use builder::Builder;

use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::executor::{Engine, current};

/// A runtime: an executor on a database. Clones are the same runtime; when the last is dropped, it ends as a crash
/// would, with every task and connection gone. [`shutdown`](Self::shutdown) ends it gracefully.
#[derive(Clone)]
pub struct Runtime(Arc<Guard>);

struct Guard(Arc<Engine>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("executor_id", &&*self.0.0.identity().executor_id).finish_non_exhaustive()
    }
}

impl Runtime {
    fn new(engine: Arc<Engine>) -> Self {
        Self(Arc::new(Guard(engine)))
    }

    /// Runs a future with this runtime as the current one: `start`, plain calls and `state` in it use this runtime.
    pub fn enter<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        current::enter(Arc::clone(&self.0.0), future)
    }

    /// Takes over from executors that are dead, and reports what this process has claimed since it started. See
    /// [`recover`](crate::recover).
    ///
    /// # Errors
    /// What the database says.
    pub async fn recover(&self) -> Result<Recovered, Error> {
        let tally = self.0.0.recover().await?;
        let unserved = tally.unserved.into_iter();
        Ok(Recovered {
            workflows: tally.workflows,
            steps: tally.steps,
            ids: tally.ids,
            unserved: unserved.map(|(name, version, workflows)| Unserved { name, version, workflows }).collect(),
        })
    }

    /// A client on the runtime's database: starts, queues, requeues.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::of(Arc::clone(&self.0.0.hub))
    }

    /// The id of the executor: one for each incarnation of a process.
    #[must_use]
    pub fn executor_id(&self) -> String {
        self.0.0.identity().executor_id.to_string()
    }

    /// Ends gracefully: takes no new work, tells running steps and gives them `cancel_grace`, and gives back what has
    /// not ended, so that another process goes on with it at once.
    pub async fn shutdown(&self) {
        current::unset_default(&self.0.0);
        self.0.0.shutdown().await;
    }
}

/// The process default, kept alive.
static DEFAULT: Mutex<Option<Runtime>> = Mutex::new(None);

/// Starts the process's default runtime on the database that `DURABLE_DATABASE_URL` or `DATABASE_URL` names, or else
/// on the file `durable.db` in the current directory.
///
/// # Errors
/// [`ErrorKind::Configuration`] if there is a default runtime already or a setting is wrong;
/// [`ErrorKind::Unavailable`], [`ErrorKind::PermissionDenied`] and [`ErrorKind::Schema`] as the database answers.
pub async fn init() -> Result<Runtime, Error> {
    Builder::new().init().await
}

/// Takes over from executors that are dead, and continues their unfinished workflows from their last recorded step.
/// Safe on a live fleet: a workflow is taken only from an executor that has ended. On Postgres it may wait up to the
/// grace (3 s) for the judgement on one whose lock is free, and behind a transaction pooler up to the lease (30 s) for
/// the next sign of life of every other; on SQLite it does not wait.
///
/// # Errors
/// [`ErrorKind::Configuration`] without a default runtime; what the database says otherwise.
pub async fn recover() -> Result<Recovered, Error> {
    default_runtime()?.recover().await
}

/// Ends the default runtime gracefully; nothing if there is none. See [`Runtime::shutdown`].
pub async fn shutdown() {
    let held = DEFAULT.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(runtime) = held {
        runtime.shutdown().await;
    }
}

fn default_runtime() -> Result<Runtime, Error> {
    DEFAULT.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(|| {
        Error::new(ErrorKind::Configuration, "there is no default runtime: call `durable::init().await` first")
    })
}

fn set_default(runtime: &Runtime) -> bool {
    let set = current::set_default(&runtime.0.0);
    if set {
        *DEFAULT.lock().unwrap_or_else(PoisonError::into_inner) = Some(runtime.clone());
    }
    set
}

/// What a recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Workflows that this process has claimed since it started.
    pub workflows: usize,
    /// Outcomes in their histories: steps that do not run again.
    pub steps: usize,
    /// Their ids, up to 10,000.
    pub ids: Vec<String>,
    /// What stays pending because this program does not have it.
    pub unserved: Vec<Unserved>,
}

/// Pending workflows of a name and version that this program does not have: they wait for a build that does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unserved {
    /// The recorded name.
    pub name: String,
    /// The recorded version.
    pub version: i32,
    /// How many are pending.
    pub workflows: i64,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let Self { workflows, steps, unserved, .. } = self;
        write!(
            f,
            "recovered {workflows} workflow{}, {steps} step{} already recorded",
            plural(*workflows),
            plural(*steps)
        )?;
        for Unserved { name, version, workflows } in unserved {
            write!(f, "; {workflows} of `{name}` version {version} pending, which this program does not have")?;
        }
        Ok(())
    }
}

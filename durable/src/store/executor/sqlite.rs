//! SQLite: an OS lock on a file beside the database; a free lock is dead at once, because the OS frees it with the
//! process and not before. Without its file an executor is judged by its heartbeat, as on a server.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{Connection, Row, SqliteConnection};

use super::{Beat, BeatQuestion, DeadExecutor, ExecutorStore, LivenessConnection, Look, Registration, Suspects, Woken};
use crate::model::Micros;
use crate::store::sqlite::{Locks, One, SqliteStore, now, served_json};
use crate::store::{Lease, Result, StoreError, StoreErrorKind, WriteStore};

const REGISTER: &str = include_str!("register.sqlite.sql");
const REGISTER_WRITER: &str = include_str!("register_writer.sqlite.sql");
const BEAT: &str = include_str!("beat.sqlite.sql");
const LOOK: &str = include_str!("look.sqlite.sql");
const TOLD: &str = include_str!("told.sqlite.sql");
const OTHERS: &str = include_str!("others.sqlite.sql");
const TAKE_OVER: &str = include_str!("take_over.sqlite.sql");
const VOID: &str = include_str!("void.sqlite.sql");
const MARK_RELEASED: &str = include_str!("mark_released.sqlite.sql");
const FORGET: &str = include_str!("forget.sqlite.sql");
const FORGET_WRITERS: &str = include_str!("forget_writers.sqlite.sql");
const RETIRE: &str = include_str!("retire.sqlite.sql");

/// How often the file is looked at for changes of others; that reads no page of it.
const WATCH_EVERY: Duration = Duration::from_millis(20);

const DAY: Micros = 86_400_000_000;

#[async_trait]
impl ExecutorStore for SqliteStore {
    async fn register(&self, executor_id: &str, name: &str) -> Result<Registration> {
        if let Some(path) = &self.path {
            // Before the row: others judge by the lock as soon as they see it.
            self.hold(executor_id, take_lock(&lock_folder(path), executor_id)?);
        }
        self.record(executor_id, name).await.map_err(|error| self.explain(error))
    }

    fn liveness(&self, registration: &Registration, listen: bool) -> Box<dyn LivenessConnection> {
        Box::new(SqliteLiveness {
            connection: self.apart(),
            folder: self.path.as_deref().map(lock_folder),
            executor_id: Arc::clone(&registration.executor_id),
            locks: Arc::clone(&self.locks),
            listen,
            seen: None,
        })
    }

    async fn take_over(&self, executor_id: &str, heartbeat_at: Micros) -> Result<bool> {
        let mut connection = self.write.take().await?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let query = sqlx::query(TAKE_OVER).bind(executor_id).bind(heartbeat_at).bind(now());
        let taken = query.execute(&mut *tx).await?.rows_affected() > 0;
        if taken {
            sqlx::query(VOID).bind(executor_id).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(taken)
    }

    async fn mark_released(&self, executor_id: &str) -> Result<()> {
        let mut connection = self.write.take().await?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query(MARK_RELEASED).bind(executor_id).execute(&mut *tx).await?;
        sqlx::query(FORGET).bind(now() - DAY).execute(&mut *tx).await?;
        sqlx::query(FORGET_WRITERS).execute(&mut *tx).await?;
        tx.commit().await?;
        if let Some(path) = &self.path {
            fs::remove_file(lock_file(&lock_folder(path), executor_id)).ok();
        }
        Ok(())
    }

    async fn retire(&self, executor_id: &str) -> Result<()> {
        let mut connection = self.write.take().await?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let query = sqlx::query(RETIRE).bind(executor_id).bind(now());
        if query.execute(&mut *tx).await?.rows_affected() > 0 {
            sqlx::query(VOID).bind(executor_id).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    async fn suspects(&self, _executor_id: &str, _silence: Duration) -> Result<Suspects> {
        // A free lock is judged by the next beat, with nothing to wait for.
        Ok(Suspects::default())
    }
}

impl SqliteStore {
    /// The rows of a new executor.
    async fn record(&self, executor_id: &str, name: &str) -> Result<Registration> {
        let mut connection = self.write.take().await?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let row = sqlx::query(REGISTER).bind(executor_id).bind(name).bind(now()).fetch_one(&mut *tx).await?;
        let number = row.try_get("number")?;
        for writer in 0..=self.writers() {
            sqlx::query(REGISTER_WRITER).bind(executor_id).bind(writer).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        let executor_id: Arc<str> = executor_id.into();
        let lease = |writer| Lease { executor_id: Arc::clone(&executor_id), writer, epoch: 1, interruptions: 0 };
        Ok(Registration { number, leases: (0..=self.writers()).map(lease).collect(), executor_id })
    }
}

/// Where the locks of a database's executors are.
fn lock_folder(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".executors");
    name.into()
}

fn lock_file(folder: &Path, executor_id: &str) -> PathBuf {
    folder.join(format!("{executor_id}.lock"))
}

fn take_lock(folder: &Path, executor_id: &str) -> Result<File> {
    let path = lock_file(folder, executor_id);
    let refused = |error: &dyn std::fmt::Display| {
        StoreError::new(
            StoreErrorKind::Permission,
            format!("the lock file `{}` can't be made: {error}", path.display()),
        )
    };
    fs::create_dir_all(folder).map_err(|error| refused(&error))?;
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(|error| refused(&error))?;
    file.try_lock().map_err(|error| refused(&error))?;
    Ok(file)
}

/// Whether nobody holds the lock. `None` if the file is gone, which says nothing: somebody may have cleaned up.
fn is_free(folder: &Path, executor_id: &str) -> Option<bool> {
    match File::open(lock_file(folder, executor_id)) {
        Ok(file) => Some(!matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(_) => Some(false),
    }
}

struct SqliteLiveness {
    connection: One,
    folder: Option<PathBuf>,
    executor_id: Arc<str>,
    locks: Locks,
    listen: bool,
    /// The state of the file that was last told of.
    seen: Option<i64>,
}

impl SqliteLiveness {
    /// The others that are judged dead, by lock or lease.
    async fn dead(&self, connection: &mut SqliteConnection, question: &BeatQuestion) -> Result<Vec<DeadExecutor>> {
        let mut dead = Vec::new();
        for row in sqlx::query(OTHERS).bind(&*self.executor_id).fetch_all(connection).await? {
            let other = DeadExecutor {
                executor_id: row.try_get("executor_id")?,
                name: row.try_get("name")?,
                heartbeat_at: row.try_get("heartbeat_at")?,
                marked: row.try_get("marked")?,
            };
            let silent_for = |limit: Duration| {
                let micros = Micros::try_from(limit.as_micros()).unwrap_or(Micros::MAX);
                question.watching >= limit && now() - other.heartbeat_at > micros
            };
            // In memory every other executor is one of this process: only the lease can tell. Without its file one is
            // judged by its heartbeat, as on a server.
            let free = self.folder.as_deref().is_some_and(|folder| {
                is_free(folder, &other.executor_id).unwrap_or_else(|| silent_for(question.grace))
            });
            if other.marked || free || silent_for(question.lease) {
                dead.push(other);
            }
        }
        Ok(dead)
    }
}

/// Whether there is work.
async fn look(connection: &mut SqliteConnection, question: &BeatQuestion) -> Result<Look> {
    // Names always have a JSON text.
    let queues = question.queues.as_deref().map(|queues| serde_json::to_string(queues).unwrap_or_default());
    let query = sqlx::query(LOOK).bind(served_json(&question.served)).bind(queues).bind(now());
    let row = query.fetch_one(connection).await?;
    Ok(Look { due: row.try_get("due")?, due_in: row.try_get("due_in")?, rated: row.try_get("rated")? })
}

#[async_trait]
impl LivenessConnection for SqliteLiveness {
    async fn acquire(&mut self) -> Result<()> {
        // The lock was taken before the executor was recorded, and only the end of the process frees it.
        Ok(())
    }

    async fn beat(&mut self, question: &BeatQuestion) -> Result<Beat> {
        let mut connection = self.connection.take().await?;
        let alive =
            sqlx::query(BEAT).bind(&*self.executor_id).bind(now()).execute(&mut *connection).await?.rows_affected() > 0;
        let row = sqlx::query(TOLD).bind(&*self.executor_id).fetch_one(&mut *connection).await?;
        Ok(Beat {
            alive,
            now: now(),
            interruptions: row.try_get("interruptions")?,
            look: look(&mut connection, question).await?,
            dead: self.dead(&mut connection, question).await?,
        })
    }

    async fn look(&mut self, question: &BeatQuestion) -> Result<Look> {
        look(&mut *self.connection.take().await?, question).await
    }

    async fn woken(&mut self) -> Result<Woken> {
        // In memory everybody who could change it is here, and tells.
        if !self.listen || self.folder.is_none() {
            return std::future::pending().await;
        }
        loop {
            let version = {
                let mut connection = self.connection.take().await?;
                let row = sqlx::query("PRAGMA data_version").fetch_one(&mut *connection).await?;
                row.try_get::<i64, _>(0)?
            };
            if self.seen.replace(version).is_some_and(|seen| seen != version) {
                return Ok(Woken::Perhaps);
            }
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }

    async fn release(&mut self) {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).remove(&*self.executor_id);
        if self.folder.is_some() {
            self.connection.close().await;
        }
    }
}

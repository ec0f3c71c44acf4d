//! Postgres: a session advisory lock, and a heartbeat on the same connection; behind a pooler the heartbeat alone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgRow};

use super::{Beat, BeatQuestion, DeadExecutor, ExecutorStore, LivenessConnection, Look, Registration, Suspects, Woken};
use crate::model::Micros;
use crate::store::connection::{Answer, EngineConnection, Question, Sessions, listener};
use crate::store::postgres::{PostgresStore, Schema, Time};
use crate::store::{Lease, Result, StoreError, StoreErrorKind, WriteStore};

const REGISTER: &str = include_str!("register.postgres.sql");
const BEAT: &str = include_str!("beat.postgres.sql");
const LOOK: &str = include_str!("look.postgres.sql");
const TAKE_OVER: &str = include_str!("take_over.postgres.sql");
const MARK_RELEASED: &str = include_str!("mark_released.postgres.sql");
const RETIRE: &str = include_str!("retire.postgres.sql");
const SUSPECTS: &str = include_str!("suspects.postgres.sql");

#[async_trait]
impl ExecutorStore for PostgresStore {
    async fn register(&self, executor_id: &str, name: &str) -> Result<Registration> {
        let has_session = self.sessions() == Sessions::Kept;
        let query = self.query(REGISTER).bind(executor_id).bind(name).bind(self.writers()).bind(has_session);
        let row = self.pool.ask(query).await?.one()?;
        let executor_id: Arc<str> = executor_id.into();
        let lease = |writer| Lease { executor_id: Arc::clone(&executor_id), writer, epoch: 1, interruptions: 0 };
        Ok(Registration {
            number: row.try_get("number")?,
            leases: (0..=self.writers()).map(lease).collect(),
            executor_id,
        })
    }

    fn liveness(&self, registration: &Registration, listen: bool) -> Box<dyn LivenessConnection> {
        Box::new(PostgresLiveness {
            options: self.options.clone(),
            sessions: self.sessions(),
            schema: self.schema.clone(),
            executor_id: Arc::clone(&registration.executor_id),
            number: registration.number,
            connection: Connected::No,
            locked: false,
            listen,
            queues: None,
        })
    }

    async fn take_over(&self, executor_id: &str, heartbeat_at: Micros) -> Result<bool> {
        let query = self.query(TAKE_OVER).bind(executor_id).bind(Time(heartbeat_at));
        Ok(self.pool.ask(query).await?.one()?.try_get("taken")?)
    }

    async fn mark_released(&self, executor_id: &str) -> Result<()> {
        self.pool.ask(self.query(MARK_RELEASED).bind(executor_id)).await?;
        Ok(())
    }

    async fn retire(&self, executor_id: &str) -> Result<()> {
        self.pool.ask(self.query(RETIRE).bind(executor_id)).await?;
        Ok(())
    }

    async fn suspects(&self, executor_id: &str, silence: Duration) -> Result<Suspects> {
        let lock_class = i64::from(self.schema.lock_class());
        let query = self.query(SUSPECTS).bind(executor_id).bind(lock_class).bind(micros(silence));
        let row = self.pool.ask(query).await?.one()?;
        Ok(Suspects { by_lock: row.try_get("by_lock")?, by_lease: row.try_get("by_lease")? })
    }
}

struct PostgresLiveness {
    options: PgConnectOptions,
    sessions: Sessions,
    schema: Schema,
    executor_id: Arc<str>,
    number: i32,
    connection: Connected,
    locked: bool,
    listen: bool,
    queues: Option<Arc<[String]>>,
}

/// What the heartbeat goes by.
enum Connected {
    No,
    /// Heartbeat, lock and LISTEN share the session.
    Listening(PgListener, PgPool),
    /// Behind a pooler: the heartbeat alone.
    Pooled(EngineConnection),
}

impl Connected {
    async fn ask(&mut self, question: Question<'_>) -> Result<Answer> {
        match self {
            Self::No => Err(StoreError::new(StoreErrorKind::Unavailable, "the heartbeat has no connection")),
            Self::Listening(session, _) => Ok(Answer { rows: question.fetch_all(session).await?, affected: 0 }),
            Self::Pooled(connection) => Ok(connection.ask(question).await?),
        }
    }
}

impl PostgresLiveness {
    /// Takes the lock if it is free. It is not while the server has yet to notice that our last session is gone: then
    /// the heartbeat goes on, and the lock is tried again with the next.
    async fn lock(&mut self) -> Result<()> {
        if self.sessions == Sessions::Kept {
            let lock = "SELECT pg_try_advisory_lock($1, $2)";
            let query = self.schema.query(lock).bind(self.schema.lock_class()).bind(self.number);
            self.locked = self.connection.ask(query).await?.one()?.try_get(0)?;
        }
        Ok(())
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn look_of(row: &PgRow) -> Result<Look> {
    Ok(Look { due: row.try_get("due")?, due_in: row.try_get("due_in")?, rated: row.try_get("rated")? })
}

#[async_trait]
impl LivenessConnection for PostgresLiveness {
    async fn acquire(&mut self) -> Result<()> {
        self.connection = Connected::No;
        self.locked = false;
        if self.sessions == Sessions::Pooled {
            self.connection = Connected::Pooled(EngineConnection::open(&self.options, self.sessions).await?);
            return Ok(());
        }
        let (mut session, pool) = listener(&self.options).await?;
        // What was said before is found by the beat that follows.
        if self.listen {
            session.listen(&format!("{}.wake", self.schema.name())).await?;
        }
        self.connection = Connected::Listening(session, pool);
        self.lock().await
    }

    async fn beat(&mut self, question: &BeatQuestion) -> Result<Beat> {
        if !self.locked {
            self.lock().await?;
        }
        let (names, versions): (Vec<&str>, Vec<i32>) = question.served.iter().copied().unzip();
        let query = self
            .schema
            .query(BEAT)
            .bind(&*self.executor_id)
            .bind(i64::from(self.schema.lock_class()))
            .bind(micros(question.grace))
            .bind(micros(question.lease))
            .bind(micros(question.watching))
            .bind(names)
            .bind(versions)
            .bind(question.queues.as_deref());
        let rows = self.connection.ask(query).await?.rows;
        self.queues.clone_from(&question.queues);
        let mut beat = Beat::default();
        for row in &rows {
            beat.alive = row.try_get("alive")?;
            beat.now = row.try_get::<Time, _>("now")?.0;
            beat.interruptions = row.try_get("interruptions")?;
            beat.look = look_of(row)?;
            if let Some(executor_id) = row.try_get("executor_id")? {
                beat.dead.push(DeadExecutor {
                    executor_id,
                    name: row.try_get("name")?,
                    heartbeat_at: row.try_get::<Time, _>("heartbeat_at")?.0,
                    marked: row.try_get("marked")?,
                });
            }
        }
        Ok(beat)
    }

    async fn look(&mut self, question: &BeatQuestion) -> Result<Look> {
        let (names, versions): (Vec<&str>, Vec<i32>) = question.served.iter().copied().unzip();
        let query = self.schema.query(LOOK).bind(names).bind(versions).bind(question.queues.as_deref());
        look_of(&self.connection.ask(query).await?.one()?)
    }

    async fn woken(&mut self) -> Result<Woken> {
        let Connected::Listening(listener, _) = &mut self.connection else { return std::future::pending().await };
        loop {
            // `None` is a session that ended; the driver would open another by itself, without our lock.
            let Some(said) = listener.try_recv().await? else {
                self.connection = Connected::No;
                return Err(StoreError::new(StoreErrorKind::Unavailable, "the session of the heartbeat ended"));
            };
            let queue = said.payload();
            if queue.is_empty() {
                return Ok(Woken::Perhaps);
            }
            if self.queues.as_deref().is_none_or(|queues| queues.iter().any(|served| served == queue)) {
                return Ok(Woken::Pending);
            }
        }
    }

    async fn release(&mut self) {
        if let Connected::Listening(listener, pool) = std::mem::replace(&mut self.connection, Connected::No) {
            drop(listener);
            // The session ends with it, and the lock with the session.
            tokio::time::timeout(Duration::from_secs(1), pool.close()).await.ok();
        }
    }
}

//! Postgres: a session advisory lock, and a heartbeat on the same connection.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool};

use super::{Beat, BeatQuestion, DeadExecutor, ExecutorStore, LivenessConnection, Look, Registration, Woken};
use crate::model::Micros;
use crate::store::postgres::{PostgresStore, Schema, Time, listener};
use crate::store::{Lease, Result, StoreError, StoreErrorKind, WriteStore};

const REGISTER: &str = include_str!("register.postgres.sql");
const BEAT: &str = include_str!("beat.postgres.sql");
const LOOK: &str = include_str!("look.postgres.sql");
const TAKE_OVER: &str = include_str!("take_over.postgres.sql");
const MARK_RELEASED: &str = include_str!("mark_released.postgres.sql");
const RETIRE: &str = include_str!("retire.postgres.sql");
const HAS_SUSPECTS: &str = include_str!("has_suspects.postgres.sql");

#[async_trait]
impl ExecutorStore for PostgresStore {
    async fn register(&self, executor_id: &str, name: &str) -> Result<Registration> {
        let sql = self.schema.sql(REGISTER);
        let row = sqlx::query(sql).bind(executor_id).bind(name).bind(self.writers()).fetch_one(&self.pool).await?;
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
            schema: self.schema.clone(),
            executor_id: Arc::clone(&registration.executor_id),
            number: registration.number,
            connection: None,
            locked: false,
            listen,
            queues: None,
        })
    }

    async fn take_over(&self, executor_id: &str, heartbeat_at: Micros) -> Result<bool> {
        let query = sqlx::query(self.schema.sql(TAKE_OVER)).bind(executor_id).bind(Time(heartbeat_at));
        Ok(query.fetch_one(&self.pool).await?.try_get("taken")?)
    }

    async fn mark_released(&self, executor_id: &str) -> Result<()> {
        sqlx::query(self.schema.sql(MARK_RELEASED)).bind(executor_id).execute(&self.pool).await?;
        Ok(())
    }

    async fn retire(&self, executor_id: &str) -> Result<()> {
        sqlx::query(self.schema.sql(RETIRE)).bind(executor_id).execute(&self.pool).await?;
        Ok(())
    }

    async fn has_suspects(&self, executor_id: &str) -> Result<bool> {
        let query =
            sqlx::query(self.schema.sql(HAS_SUSPECTS)).bind(executor_id).bind(i64::from(self.schema.lock_class()));
        Ok(query.fetch_one(&self.pool).await?.try_get(0)?)
    }
}

struct PostgresLiveness {
    options: PgConnectOptions,
    schema: Schema,
    executor_id: Arc<str>,
    number: i32,
    /// Heartbeat, lock and LISTEN share it.
    connection: Option<(PgListener, PgPool)>,
    locked: bool,
    listen: bool,
    queues: Option<Arc<[String]>>,
}

impl PostgresLiveness {
    /// Takes the lock if it is free. It is not while the server has yet to notice that our last session is gone: then
    /// the heartbeat goes on, and the lock is tried again with the next.
    async fn lock(&mut self) -> Result<()> {
        let query = sqlx::query("SELECT pg_try_advisory_lock($1, $2)").bind(self.schema.lock_class()).bind(self.number);
        if let Some((connection, _)) = self.connection.as_mut() {
            self.locked = query.fetch_one(connection).await?.try_get(0)?;
        }
        Ok(())
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[async_trait]
impl LivenessConnection for PostgresLiveness {
    async fn acquire(&mut self) -> Result<()> {
        self.connection = None;
        self.locked = false;
        let (mut listener, pool) = listener(&self.options).await?;
        // What was said before is found by the beat that follows.
        if self.listen {
            listener.listen(&format!("{}.wake", self.schema.name())).await?;
        }
        self.connection = Some((listener, pool));
        self.lock().await
    }

    async fn beat(&mut self, question: &BeatQuestion) -> Result<Beat> {
        if !self.locked {
            self.lock().await?;
        }
        let sql = self.schema.sql(BEAT);
        let (names, versions): (Vec<&str>, Vec<i32>) = question.served.iter().copied().unzip();
        let Some((connection, _)) = self.connection.as_mut() else {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "the heartbeat has no connection"));
        };
        let rows = sqlx::query(sql)
            .bind(&*self.executor_id)
            .bind(i64::from(self.schema.lock_class()))
            .bind(micros(question.grace))
            .bind(micros(question.lease))
            .bind(micros(question.watching))
            .bind(names)
            .bind(versions)
            .bind(question.queues.as_deref())
            .fetch_all(connection)
            .await?;
        self.queues.clone_from(&question.queues);
        let mut beat = Beat::default();
        for row in &rows {
            beat.alive = row.try_get("alive")?;
            beat.now = row.try_get::<Time, _>("now")?.0;
            beat.interruptions = row.try_get("interruptions")?;
            beat.look = Look { due: row.try_get("due")?, due_in: row.try_get("due_in")? };
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
        let sql = self.schema.sql(LOOK);
        let (names, versions): (Vec<&str>, Vec<i32>) = question.served.iter().copied().unzip();
        let Some((connection, _)) = self.connection.as_mut() else { return Ok(Look::default()) };
        let query = sqlx::query(sql).bind(names).bind(versions).bind(question.queues.as_deref());
        let row = query.fetch_one(connection).await?;
        Ok(Look { due: row.try_get("due")?, due_in: row.try_get("due_in")? })
    }

    async fn woken(&mut self) -> Result<Woken> {
        let Some((listener, _)) = self.connection.as_mut() else { return std::future::pending().await };
        loop {
            // `None` is a session that ended; the driver would open another by itself, without our lock.
            let Some(said) = listener.try_recv().await? else {
                self.connection = None;
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
        if let Some((listener, pool)) = self.connection.take() {
            drop(listener);
            // The session ends with it, and the lock with the session.
            tokio::time::timeout(Duration::from_secs(1), pool.close()).await.ok();
        }
    }
}

//! Postgres: the engine's connections, with a session of the server's own or behind a transaction pooler.
//!
//! Guarantees that behind a pooler nothing depends on a session: each statement is unnamed and a transaction of its
//! own, which begins with the settings that an engine connection otherwise has for life. A pool's connection that may
//! have been left inside a transaction is closed. Layer: store.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgListener, PgPool, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Connection, Either, Executor as _, Postgres, Row, Transaction};

use super::{Result, StoreError, StoreErrorKind};

/// What a connection keeps from one transaction to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sessions {
    /// Settings, locks, prepared statements, LISTEN: it is a session of the server's.
    Kept,
    /// Nothing: a transaction pooler gives every transaction another session.
    Pooled,
}

/// Of every connection that the engine opens itself.
const SESSION: [(&str, &str); 11] = [
    // A silent network ends a session within half a minute, on the server's side too.
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "25000"),
    // Every statement goes by an index. Left free, the planner reads the whole of a table that was small when it
    // looked, or of which much is pending, and the cost of a beat or claim grows with the finished rows.
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    // A statement that waited for a lease row reads it again; a role may be set to fail instead.
    ("default_transaction_isolation", "read committed"),
    ("lock_timeout", "0"),
];

/// A cluster may run with it off: then an acknowledged record could be lost by a crash of the server.
const MAKE_DURABLE: &str =
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Of a writer. The plan is part of the contract: with the settings of every engine connection this leaves the primary
/// keys as the only way in, whatever the tables' sizes were when it was made.
const PINS: &str = "SET plan_cache_mode = force_generic_plan; SET statement_timeout = 0";

/// All of these for one transaction, in one round trip. An unnamed statement is planned for the values it is sent with,
/// so that the plan has no age.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off;
    SET LOCAL enable_mergejoin = off; SET LOCAL jit = off; SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0;
    SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'";

/// The options of a connection that the engine opens itself.
pub(super) fn engine_options(options: PgConnectOptions, sessions: Sessions) -> PgConnectOptions {
    let options = options.disable_statement_logging();
    match sessions {
        Sessions::Kept => options.options(SESSION),
        // Poolers refuse what they can't keep.
        Sessions::Pooled => options.extra_float_digits(None),
    }
}

/// The pool of a store that was given a URL.
pub(super) fn engine_pool(options: &PgConnectOptions, sessions: Sessions, size: u32) -> PgPool {
    let pool = PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(Duration::from_secs(10))
        .idle_timeout(Duration::from_secs(60));
    let pool = match sessions {
        Sessions::Kept => pool.after_connect(|connection, _| Box::pin(make_durable(connection))),
        Sessions::Pooled => pool,
    };
    pool.connect_lazy_with(engine_options(options.clone(), sessions))
}

/// Opens a session that can listen, for at most ten seconds. The driver wants a pool for that; this one has no other use.
pub(super) async fn listener(options: &PgConnectOptions) -> Result<(PgListener, PgPool)> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(10))
        .idle_timeout(None)
        .max_lifetime(None)
        .after_connect(|connection, _| Box::pin(make_durable(connection)))
        .connect_lazy_with(engine_options(options.clone(), Sessions::Kept));
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    Ok((listener, pool))
}

async fn make_durable(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query(MAKE_DURABLE).execute(connection).await.map(drop)
}

/// What a new connection is told of the server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) version: i32,
    pub(super) encoding: String,
    pub(super) sessions: Sessions,
}

/// Connects once, and finds out whether there is a pooler in between: it refuses the settings of a session, or it drops
/// them.
pub(super) async fn look_at_server(options: &PgConnectOptions) -> Result<Server> {
    let refused = |error: &sqlx::Error| {
        // "protocol violation" and "feature not supported" of a startup packet.
        error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "08P01" || code == "0A000")
    };
    let (mut connection, taken) = match in_time(open(options, Sessions::Kept)).await? {
        Ok(connection) => (connection, true),
        Err(error) if refused(&error) => match in_time(open(options, Sessions::Pooled)).await? {
            Ok(connection) => (connection, false),
            // Whatever else is wrong, the first error is of the connection that was wanted.
            Err(_) => return Err(error.into()),
        },
        Err(error) => return Err(error.into()),
    };
    // Unprepared: a pooler may be there.
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
                      current_setting('enable_seqscan')";
    let row = sqlx::raw_sql(sql).fetch_one(&mut connection).await?;
    connection.close().await.ok();
    let kept = taken && row.try_get::<&str, _>(2)? == "off";
    let sessions = if kept { Sessions::Kept } else { Sessions::Pooled };
    Ok(Server { version: row.try_get(0)?, encoding: row.try_get(1)?, sessions })
}

async fn in_time<T>(opening: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(Duration::from_secs(10), opening)
        .await
        .map_err(|_| StoreError::new(StoreErrorKind::Unavailable, "the database did not answer within 10 seconds"))
}

/// A server that is starting, or has no connection left, is asked again: many processes may come up at once.
async fn open(options: &PgConnectOptions, sessions: Sessions) -> sqlx::Result<PgConnection> {
    let options = engine_options(options.clone(), sessions);
    let mut pause = Duration::from_millis(50);
    let give_up_at = tokio::time::Instant::now() + Duration::from_secs(9);
    loop {
        match PgConnection::connect_with(&options).await {
            Ok(connection) => return Ok(connection),
            Err(sqlx::Error::Database(error))
                if error.is_transient_in_connect_phase() && tokio::time::Instant::now() < give_up_at =>
            {
                tracing::debug!(%error, "the database takes no connection for now");
                tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                // A heartbeat's session has to be back well within the grace of those that were luckier.
                pause = (pause * 2).min(Duration::from_millis(200));
            }
            Err(error) => return Err(error),
        }
    }
}

/// A statement with its values.
pub(super) type Question<'q> = Query<'q, Postgres, PgArguments>;

/// The rows of a statement, and how many it changed.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<PgRow>,
    pub(super) affected: u64,
}

impl Answer {
    /// The row of a statement that has one.
    pub(super) fn one(self) -> sqlx::Result<PgRow> {
        self.first().ok_or(sqlx::Error::RowNotFound)
    }

    /// The row of a statement that may have one.
    pub(super) fn first(self) -> Option<PgRow> {
        self.rows.into_iter().next()
    }
}

/// A connection of the engine's own, outside any pool.
#[derive(Debug)]
pub(super) struct EngineConnection {
    connection: PgConnection,
    sessions: Sessions,
}

impl EngineConnection {
    /// Opens one, for at most ten seconds.
    pub(super) async fn open(options: &PgConnectOptions, sessions: Sessions) -> Result<Self> {
        let opening = async {
            let mut connection = open(options, sessions).await?;
            if sessions == Sessions::Kept {
                make_durable(&mut connection).await?;
            }
            Ok::<_, sqlx::Error>(connection)
        };
        Ok(Self { connection: in_time(opening).await??, sessions })
    }

    /// One of a writer.
    pub(super) async fn open_pinned(options: &PgConnectOptions, sessions: Sessions) -> Result<Self> {
        let mut opened = Self::open(options, sessions).await?;
        if sessions == Sessions::Kept {
            sqlx::raw_sql(PINS).execute(&mut opened.connection).await?;
        }
        Ok(opened)
    }

    /// One statement.
    pub(super) async fn ask(&mut self, question: Question<'_>) -> sqlx::Result<Answer> {
        ask(&mut self.connection, self.sessions, question).await
    }

    /// A transaction of several.
    pub(super) async fn begin(&mut self) -> sqlx::Result<Transaction<'_, Postgres>> {
        match self.sessions {
            Sessions::Kept => self.connection.begin().await,
            Sessions::Pooled => self.connection.begin_with(BEGIN).await,
        }
    }

    pub(super) async fn close(self) {
        self.connection.close().await.ok();
    }
}

/// Connections for single statements, whichever is free.
#[derive(Debug)]
pub(super) struct EnginePool {
    pub(super) pool: PgPool,
    pub(super) sessions: Sessions,
}

impl EnginePool {
    /// One statement.
    pub(super) async fn ask(&self, question: Question<'_>) -> sqlx::Result<Answer> {
        let mut held = Held { connection: self.pool.acquire().await?, whole: self.sessions == Sessions::Kept };
        let answer = ask(&mut held.connection, self.sessions, question).await?;
        held.whole = true;
        Ok(answer)
    }

    /// One statement whose rows are read as they come.
    pub(super) fn stream<'a>(&'a self, question: Question<'a>) -> BoxStream<'a, sqlx::Result<PgRow>> {
        match self.sessions {
            Sessions::Kept => self.pool.fetch(question),
            Sessions::Pooled => stream::once(self.ask(question))
                .map_ok(|answer| stream::iter(answer.rows).map(Ok))
                .try_flatten()
                .boxed(),
        }
    }
}

/// A pool's connection. Behind a pooler, one that somebody gave up on may be inside a transaction.
struct Held {
    connection: PoolConnection<Postgres>,
    whole: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.whole {
            self.connection.close_on_drop();
        }
    }
}

async fn ask(connection: &mut PgConnection, sessions: Sessions, question: Question<'_>) -> sqlx::Result<Answer> {
    if sessions == Sessions::Kept {
        return collect(connection, question).await;
    }
    let mut tx = connection.begin_with(BEGIN).await?;
    match collect(&mut tx, question.persistent(false)).await {
        Ok(answer) => tx.commit().await.map(|()| answer),
        Err(error) => {
            // Now, and not before the next statement: the pooler keeps a session for us until then.
            tx.rollback().await.ok();
            Err(error)
        }
    }
}

async fn collect(connection: &mut PgConnection, question: Question<'_>) -> sqlx::Result<Answer> {
    let mut parts = connection.fetch_many(question);
    let mut answer = Answer::default();
    while let Some(part) = parts.try_next().await? {
        match part {
            Either::Left(done) => answer.affected += done.rows_affected(),
            Either::Right(row) => answer.rows.push(row),
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooled_transaction_begins_with_every_setting_of_a_session() {
        let own = ["enable_", "jit", "lock_timeout"];
        let settings = SESSION.iter().filter(|(name, _)| own.iter().any(|own| name.starts_with(own)));
        assert_eq!(settings.clone().count(), 6);
        for (name, value) in settings {
            assert!(BEGIN.contains(&format!("SET LOCAL {name} = {value};")), "{name}");
        }
    }
}

//! Postgres: connections, types and the schema name.
//!
//! Guarantees that the schema name is put into SQL at one place, validated. Layer: store.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{
    PgArgumentBuffer, PgConnectOptions, PgConnection, PgHasArrayType, PgListener, PgPool, PgPoolOptions, PgRow,
    PgTypeInfo, PgValueRef,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Postgres, Row, SqlSafeStr, SqlStr};

use super::{Result, StoreError, StoreErrorKind};
use crate::model::Micros;

/// A Postgres database and the schema in it.
pub(super) struct PostgresStore {
    pub(super) pool: PgPool,
    pub(super) options: PgConnectOptions,
    pub(super) schema: Schema,
    /// Outside the pool: for transactions.
    pub(super) apart: tokio::sync::Mutex<Option<PgConnection>>,
}

/// The schema name, and the statements with it put in.
#[derive(Clone)]
pub(super) struct Schema {
    name: Arc<str>,
    /// Statements by the address of their text; empty while the schema has its own name.
    renamed: Arc<Mutex<HashMap<usize, Arc<str>>>>,
}

impl Schema {
    /// # Errors
    /// [`StoreErrorKind::Configuration`] unless the name is a plain lower-case identifier of up to 40 characters.
    pub(super) fn new(name: &str) -> Result<Self> {
        let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !plain || name.len() > 40 || name.starts_with("pg_") {
            return Err(StoreError::new(
                StoreErrorKind::Configuration,
                format!(
                    "schema name `{}` can't be used; use up to 40 of a-z, 0-9 and _, not starting with a digit or pg_",
                    name.escape_default()
                ),
            ));
        }
        Ok(Self { name: name.into(), renamed: Arc::default() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A statement for this schema. The files are written for the schema `durable`.
    pub(super) fn sql(&self, text: &'static str) -> SqlStr {
        if &*self.name == "durable" {
            return text.into_sql_str();
        }
        let mut renamed = self.renamed.lock().unwrap_or_else(PoisonError::into_inner);
        let text = renamed
            .entry(text.as_ptr() as usize)
            .or_insert_with(|| text.replace("durable.", &format!("{}.", self.name)).into());
        AssertSqlSafe(Arc::clone(text)).into_sql_str()
    }

    /// The first key of this installation's advisory locks: other schemas in the database number their own executors.
    pub(super) fn lock_class(&self) -> i32 {
        let [a, b, c, d, ..] = xxhash_rust::xxh3::xxh3_64(format!("durable.{}", self.name).as_bytes()).to_le_bytes();
        // Positive, because pg_locks shows the key as an unsigned oid.
        i32::from_le_bytes([a, b, c, d & 0x7f])
    }
}

impl PostgresStore {
    pub(super) async fn connect(url: &str, pool: Option<PgPool>, schema: &str, pool_size: u32) -> Result<Self> {
        let schema = Schema::new(schema)?;
        let options = match &pool {
            Some(pool) => (*pool.connect_options()).clone(),
            None => PgConnectOptions::from_str(url)?.application_name("durable"),
        };
        let options = options.disable_statement_logging();
        let pool = match pool {
            Some(pool) => pool,
            None => PgPoolOptions::new()
                .max_connections(pool_size)
                .acquire_timeout(Duration::from_secs(10))
                .idle_timeout(Duration::from_secs(60))
                .after_connect(|connection, _| Box::pin(make_durable(connection)))
                .connect_lazy_with(engine_options(options.clone())),
        };
        let store = Self { pool, options, schema, apart: tokio::sync::Mutex::default() };
        store.check_server().await?;
        Ok(store)
    }

    async fn check_server(&self) -> Result<()> {
        let mut connection = self.connection().await?;
        let row = sqlx::query("SELECT current_setting('server_version_num')::int, current_setting('server_encoding')")
            .fetch_one(&mut connection)
            .await?;
        let (version, encoding): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
        connection.close().await.ok();
        if version < 140_000 {
            return Err(StoreError::new(
                StoreErrorKind::Configuration,
                format!("PostgreSQL {} is too old; use 14 or later", version / 10_000),
            ));
        }
        if encoding != "UTF8" {
            return Err(StoreError::new(
                StoreErrorKind::Configuration,
                format!("the database has the encoding {encoding}; create one with ENCODING 'UTF8'"),
            ));
        }
        Ok(())
    }

    /// A connection of the engine's own, outside the pool.
    pub(super) async fn connection(&self) -> Result<PgConnection> {
        connect(&self.options).await
    }
}

/// Opens an engine connection, for at most ten seconds.
pub(super) async fn connect(options: &PgConnectOptions) -> Result<PgConnection> {
    match tokio::time::timeout(Duration::from_secs(10), open(&engine_options(options.clone()))).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(StoreError::new(StoreErrorKind::Unavailable, "the database did not answer within 10 seconds")),
    }
}

/// Opens a session that can listen, for at most ten seconds. The driver wants a pool for that; this one has no other use.
pub(super) async fn listener(options: &PgConnectOptions) -> Result<(PgListener, PgPool)> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(10))
        .idle_timeout(None)
        .max_lifetime(None)
        .after_connect(|connection, _| Box::pin(make_durable(connection)))
        .connect_lazy_with(engine_options(options.clone()));
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    Ok((listener, pool))
}

/// A server that is starting, or has no connection left, is asked again: many processes may come up at once.
async fn open(options: &PgConnectOptions) -> std::result::Result<PgConnection, sqlx::Error> {
    let mut pause = Duration::from_millis(50);
    let give_up_at = tokio::time::Instant::now() + Duration::from_secs(9);
    loop {
        match PgConnection::connect_with(options).await {
            Ok(mut connection) => {
                make_durable(&mut connection).await?;
                return Ok(connection);
            }
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

fn engine_options(options: PgConnectOptions) -> PgConnectOptions {
    options.disable_statement_logging().options(SESSION)
}

/// A cluster may run with it off: then an acknowledged record could be lost by a crash of the server.
async fn make_durable(connection: &mut PgConnection) -> std::result::Result<(), sqlx::Error> {
    let sql =
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";
    sqlx::query(sql).execute(connection).await.map(drop)
}

/// A timestamp in microseconds since 1970, without a time crate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Micros);

/// Postgres counts from 2000-01-01.
const POSTGRES_EPOCH: Micros = 946_684_800_000_000;

impl sqlx::Type<Postgres> for Time {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(sqlx::postgres::types::Oid(1184))
    }
}

impl PgHasArrayType for Time {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(sqlx::postgres::types::Oid(1185))
    }
}

impl sqlx::Encode<'_, Postgres> for Time {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> std::result::Result<IsNull, BoxDynError> {
        buffer.extend(&(self.0 - POSTGRES_EPOCH).to_be_bytes());
        Ok(IsNull::No)
    }
}

impl sqlx::Decode<'_, Postgres> for Time {
    fn decode(value: PgValueRef<'_>) -> std::result::Result<Self, BoxDynError> {
        let bytes: [u8; 8] = value.as_bytes()?.try_into()?;
        Ok(Self(i64::from_be_bytes(bytes).saturating_add(POSTGRES_EPOCH)))
    }
}

/// JSON as it was written. Sent as `json`, so that no statement has to cast it from text row by row.
pub(super) struct JsonText<'a>(pub(super) &'a str);

impl sqlx::Type<Postgres> for JsonText<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(sqlx::postgres::types::Oid(114))
    }
}

impl PgHasArrayType for JsonText<'_> {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(sqlx::postgres::types::Oid(199))
    }
}

impl sqlx::Encode<'_, Postgres> for JsonText<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> std::result::Result<IsNull, BoxDynError> {
        buffer.extend(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

super::row::readers!(PgRow);

//! Postgres: the store, its types and the schema name.
//!
//! Guarantees that the schema name is put into SQL at one place, validated. Layer: store.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgConnectOptions, PgHasArrayType, PgPool, PgRow, PgTypeInfo, PgValueRef};
use sqlx::{AssertSqlSafe, Postgres, Row, SqlSafeStr, SqlStr};

use super::connection::{EngineConnection, EnginePool, Question, Server, Sessions, engine_pool, look_at_server};
use super::{Result, StoreError, StoreErrorKind};
use crate::model::Micros;

/// A Postgres database and the schema in it.
pub(super) struct PostgresStore {
    pub(super) pool: EnginePool,
    pub(super) options: PgConnectOptions,
    pub(super) schema: Schema,
    /// Outside the pool: for transactions.
    pub(super) apart: tokio::sync::Mutex<Option<EngineConnection>>,
}

/// The schema name, and the statements with it put in.
#[derive(Clone)]
pub(super) struct Schema {
    name: Arc<str>,
    /// Statements by the address of their text; empty while the schema has its own name.
    renamed: Arc<Mutex<HashMap<usize, Arc<str>>>>,
    /// True if a connection keeps prepared statements.
    named: bool,
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
        Ok(Self { name: name.into(), renamed: Arc::default(), named: true })
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

    /// A statement for this schema, to be sent. The values are bound to it.
    pub(super) fn query<'q>(&self, text: &'static str) -> Question<'q> {
        sqlx::query(self.sql(text)).persistent(self.named)
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
        let mut schema = Schema::new(schema)?;
        let options = match &pool {
            Some(pool) => (*pool.connect_options()).clone(),
            None => PgConnectOptions::from_str(url)?.application_name("durable"),
        };
        let server = look_at_server(&options).await?;
        check_server(&server)?;
        let sessions = server.sessions;
        schema.named = sessions == Sessions::Kept;
        if sessions == Sessions::Pooled {
            tracing::info!(
                "the database is behind a pooler: no LISTEN, and a dead executor is noticed by its lease alone"
            );
        }
        let pool = pool.unwrap_or_else(|| engine_pool(&options, sessions, pool_size));
        Ok(Self { pool: EnginePool { pool, sessions }, options, schema, apart: tokio::sync::Mutex::default() })
    }

    pub(super) fn sessions(&self) -> Sessions {
        self.pool.sessions
    }

    /// A connection of the engine's own, outside the pool.
    pub(super) async fn connection(&self) -> Result<EngineConnection> {
        EngineConnection::open(&self.options, self.sessions()).await
    }

    /// A statement, to be sent. The values are bound to it.
    pub(super) fn query<'q>(&self, text: &'static str) -> Question<'q> {
        self.schema.query(text)
    }
}

fn check_server(server: &Server) -> Result<()> {
    if server.version < 140_000 {
        return Err(StoreError::new(
            StoreErrorKind::Configuration,
            format!("PostgreSQL {} is too old; use 14 or later", server.version / 10_000),
        ));
    }
    if server.encoding != "UTF8" {
        return Err(StoreError::new(
            StoreErrorKind::Configuration,
            format!("the database has the encoding {}; create one with ENCODING 'UTF8'", server.encoding),
        ));
    }
    Ok(())
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

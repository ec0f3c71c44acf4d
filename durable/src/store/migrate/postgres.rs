//! Postgres: one transaction under a transaction-scoped advisory lock.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use super::{POSTGRES, Plan, plan};
use crate::store::Result;
use crate::store::postgres::{PostgresStore, Schema};

/// The version table, named by schema and not by search path, so that a host's own tables are never mistaken for it.
/// The catalog is read as a table: `to_regclass` answers from a cache that may not have heard yet of what another
/// process committed while this one waited for the lock.
async fn stored_version(tx: &mut PgConnection, schema: &Schema) -> Result<i32> {
    let exists =
        "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname = $1 AND c.relname = 'migrations')";
    let exists: bool = schema.query(exists).bind(schema.name()).fetch_one(&mut *tx).await?.try_get(0)?;
    if !exists {
        return Ok(0);
    }
    let sql = "SELECT coalesce(max(version), 0) FROM durable.migrations";
    Ok(schema.query(sql).fetch_one(tx).await?.try_get(0)?)
}

/// Brings the schema to this build's version, or checks that it is there.
pub(in crate::store) async fn bring_up(store: &PostgresStore, migrate: bool) -> Result<()> {
    let mut connection = store.connection().await?;
    let schema = &store.schema;
    let mut look = connection.begin().await?;
    let stored = stored_version(&mut look, schema).await?;
    look.rollback().await?;
    if plan(POSTGRES, stored, migrate)? == Plan::Current {
        connection.close().await;
        return Ok(());
    }
    // Another one: whoever waits for the lock holds nothing.
    let mut tx = connection.begin().await?;
    schema.query("SELECT pg_advisory_xact_lock($1, 0)").bind(schema.lock_class()).execute(&mut *tx).await?;
    // Somebody may have been faster while we waited for the lock.
    let stored = match plan(POSTGRES, stored_version(&mut tx, schema).await?, migrate)? {
        Plan::Current => return Ok(()),
        Plan::Above(stored) => stored,
    };
    let exists = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)";
    let exists: bool = schema.query(exists).bind(schema.name()).fetch_one(&mut *tx).await?.try_get(0)?;
    if !exists {
        // Not IF NOT EXISTS: that asks for the right to create schemas even where a ready-made one is used.
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {}", schema.name()))).execute(&mut *tx).await?;
    }
    let table = "CREATE TABLE IF NOT EXISTS durable.migrations (version int PRIMARY KEY, name text NOT NULL, \
                 checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())";
    sqlx::raw_sql(schema.sql(table)).execute(&mut *tx).await?;
    for migration in POSTGRES.iter().filter(|migration| migration.version > stored) {
        sqlx::raw_sql(schema.sql(migration.sql)).execute(&mut *tx).await?;
        schema
            .query("INSERT INTO durable.migrations (version, name, checksum) VALUES ($1, $2, $3)")
            .bind(migration.version)
            .bind(migration.name)
            .bind(migration.checksum())
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    connection.close().await;
    Ok(())
}

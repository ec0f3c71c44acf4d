//! SQLite: one immediate transaction.

use sqlx::{Connection, Row, SqliteConnection};

use super::{Plan, SQLITE, plan};
use crate::store::Result;
use crate::store::sqlite::{SqliteStore, now};

async fn stored_version(connection: &mut SqliteConnection) -> Result<i32> {
    // The checksum column tells our table from one that a host application happens to call the same.
    let exists = "SELECT count(*) FROM pragma_table_info('migrations') WHERE name = 'checksum'";
    if sqlx::query(exists).fetch_one(&mut *connection).await?.try_get::<i64, _>(0)? == 0 {
        return Ok(0);
    }
    let version = "SELECT coalesce(max(version), 0) FROM migrations";
    Ok(sqlx::query(version).fetch_one(connection).await?.try_get(0)?)
}

/// Brings the schema to this build's version, or checks that it is there.
pub(in crate::store) async fn bring_up(store: &SqliteStore, migrate: bool) -> Result<()> {
    let mut connection = store.write.take().await?;
    if plan(SQLITE, stored_version(&mut connection).await?, migrate)? == Plan::Current {
        return Ok(());
    }
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let stored = match plan(SQLITE, stored_version(&mut tx).await?, migrate)? {
        Plan::Current => return Ok(()),
        Plan::Above(stored) => stored,
    };
    let table = "CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, \
                 checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT";
    sqlx::query(table).execute(&mut *tx).await?;
    for migration in SQLITE.iter().filter(|migration| migration.version > stored) {
        sqlx::raw_sql(migration.sql).execute(&mut *tx).await?;
        sqlx::query("INSERT INTO migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)")
            .bind(migration.version)
            .bind(migration.name)
            .bind(migration.checksum())
            .bind(now())
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(())
}

//! A database for one work, and what it counts.

use durable_tests::{Store as Kind, postgres};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};

use crate::{Store, raw};

/// A database that nobody else uses.
pub(crate) struct Database {
    pub(crate) store: Store,
    pub(crate) url: String,
    is_on_our_server: bool,
    _held: Option<durable_tests::Database>,
}

/// Commits and bytes of write-ahead log so far.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) commits: i64,
    pub(crate) wal: i64,
}

const CLEAR: &str = "DROP SCHEMA IF EXISTS durable CASCADE; DROP SCHEMA IF EXISTS durable_few CASCADE;
                     DROP TABLE IF EXISTS raw";

impl Database {
    /// Empty; on the given server, or on one of its own.
    pub(crate) async fn fresh(store: Store, url: Option<&str>) -> anyhow::Result<Self> {
        let database = match (store, url) {
            (Store::Postgres, Some(url)) => Self { store, url: url.to_owned(), is_on_our_server: false, _held: None },
            (Store::Postgres, None) => Self {
                store,
                url: postgres::fresh_database().await,
                is_on_our_server: std::env::var_os("DURABLE_TEST_POSTGRES_URL").is_none(),
                _held: None,
            },
            (Store::Sqlite, _) => {
                let held = Kind::Sqlite.fresh_database().await;
                Self { store, url: held.url().to_owned(), is_on_our_server: false, _held: Some(held) }
            }
        };
        database.clear().await?;
        Ok(database)
    }

    /// Gives the space back; a SQLite file goes with this value.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        if self.store == Store::Postgres {
            let mut connection = PgConnection::connect(&self.url).await?;
            sqlx::raw_sql(CLEAR).execute(&mut connection).await?;
        }
        Ok(())
    }

    /// Runs SQL that is written for the schema `durable`, as both stores have it.
    pub(crate) async fn execute(&self, sql: &str) -> anyhow::Result<()> {
        match self.store {
            Store::Postgres => {
                let mut connection = PgConnection::connect(&self.url).await?;
                sqlx::raw_sql(AssertSqlSafe(format!("SET search_path = durable; {sql}")))
                    .execute(&mut connection)
                    .await?;
            }
            Store::Sqlite => {
                let mut connection = raw::sqlite(&self.url).await?;
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await?;
            }
        }
        Ok(())
    }

    /// For the whole of a server of our own; one that was given stays as it is.
    pub(crate) async fn set_autovacuum(&self, on: bool) -> anyhow::Result<()> {
        if self.is_on_our_server {
            let mut connection = PgConnection::connect(&self.url).await?;
            let set = if on { "ALTER SYSTEM RESET autovacuum" } else { "ALTER SYSTEM SET autovacuum = off" };
            sqlx::raw_sql(set).execute(&mut connection).await?;
            sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut connection).await?;
        }
        Ok(())
    }

    /// `None` on SQLite, which does not count.
    pub(crate) async fn counts(&self) -> anyhow::Result<Option<Counts>> {
        if self.store == Store::Sqlite {
            return Ok(None);
        }
        let mut connection = PgConnection::connect(&self.url).await?;
        // Transaction ids, not `pg_stat_database`: sessions report what they did up to ten seconds later.
        let row = sqlx::query(
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8, (pg_current_wal_lsn() - '0/0')::int8",
        )
        .fetch_one(&mut connection)
        .await?;
        Ok(Some(Counts { commits: row.try_get(0)?, wal: row.try_get(1)? }))
    }

    /// Version and settings: `PostgreSQL 15.18, fsync=on, …`.
    pub(crate) async fn settings(&self) -> anyhow::Result<String> {
        Ok(match self.store {
            Store::Postgres => {
                let mut connection = PgConnection::connect(&self.url).await?;
                sqlx::query_scalar(
                    "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1) || string_agg(
                         format(', %s=%s', s, current_setting(s)), '' ORDER BY n)
                     FROM unnest('{fsync,synchronous_commit,shared_buffers}'::text[])
                          WITH ORDINALITY u(s, n)",
                )
                .fetch_one(&mut connection)
                .await?
            }
            Store::Sqlite => {
                let mut connection = raw::sqlite(&self.url).await?;
                let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut connection).await?;
                let journal = pragma(&mut connection, "PRAGMA journal_mode").await?;
                let synchronous = pragma(&mut connection, "PRAGMA synchronous").await?;
                let pages = pragma(&mut connection, "PRAGMA wal_autocheckpoint").await?;
                format!(
                    "SQLite {version}, journal_mode={journal}, synchronous={synchronous}, wal_autocheckpoint={pages}"
                )
            }
        })
    }
}

async fn pragma(connection: &mut SqliteConnection, sql: &'static str) -> anyhow::Result<String> {
    let row = sqlx::query(sql).fetch_one(connection).await?;
    Ok(match row.try_get::<String, _>(0) {
        Ok(word) => word,
        Err(_) => row.try_get::<i64, _>(0)?.to_string(),
    })
}

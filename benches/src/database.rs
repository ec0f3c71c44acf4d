//! A database for one work, and what it counts.

use durable_tests::{Store as Kind, postgres};
use sqlx::{Connection, PgConnection, Row};

use crate::Store;

/// A database that nobody else uses.
pub(crate) struct Database {
    pub(crate) store: Store,
    pub(crate) url: String,
    _held: Option<durable_tests::Database>,
}

/// Commits and bytes of write-ahead log so far.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) commits: i64,
    pub(crate) wal: i64,
}

impl Database {
    /// Empty; on the given server, or on one of its own.
    pub(crate) async fn fresh(store: Store, url: Option<&str>) -> anyhow::Result<Self> {
        Ok(match (store, url) {
            (Store::Postgres, Some(url)) => {
                let mut connection = PgConnection::connect(url).await?;
                sqlx::raw_sql("DROP SCHEMA IF EXISTS durable CASCADE; DROP TABLE IF EXISTS raw")
                    .execute(&mut connection)
                    .await?;
                Self { store, url: url.to_owned(), _held: None }
            }
            (Store::Postgres, None) => Self { store, url: postgres::fresh_database().await, _held: None },
            (Store::Sqlite, _) => {
                let held = Kind::Sqlite.fresh_database().await;
                Self { store, url: held.url().to_owned(), _held: Some(held) }
            }
        })
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
}

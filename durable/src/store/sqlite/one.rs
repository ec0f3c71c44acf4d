//! The one connection that writes: taken in turn, never left inside a transaction.
//!
//! A pool of one would ask the connection after each use whether it lives, which costs a lone step a tenth of its time,
//! and would keep one whose transaction SQLite ended by itself, as it does on a full disk. Layer: store.

use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};

use crate::store::{Result, StoreError, StoreErrorKind};

/// A connection that several share, opened when it is first needed.
#[derive(Clone)]
pub(in crate::store) struct One {
    options: SqliteConnectOptions,
    /// A database in memory is gone with its connection.
    in_memory: bool,
    slot: Arc<Mutex<Option<SqliteConnection>>>,
}

/// The connection, until it is dropped.
pub(in crate::store) type Taken = OwnedMappedMutexGuard<Option<SqliteConnection>, SqliteConnection>;

impl One {
    pub(super) fn new(options: SqliteConnectOptions, in_memory: bool) -> Self {
        Self { options, in_memory, slot: Arc::default() }
    }

    /// Waits for its turn: first come, first served.
    pub(in crate::store) async fn take(&self) -> Result<Taken> {
        let mut slot = Arc::clone(&self.slot).lock_owned().await;
        if let Some(connection) = slot.as_mut()
            && connection.is_in_transaction()
        {
            // A dropped transaction rolls back before anything that is asked after it; one that SQLite has rolled back
            // itself counts as open for ever.
            let usable = connection.ping().await.is_ok() && !connection.is_in_transaction();
            if !usable && !self.in_memory {
                *slot = None;
            }
        }
        if slot.is_none() {
            *slot = Some(self.options.connect().await?);
        }
        OwnedMutexGuard::try_map(slot, Option::as_mut)
            .map_err(|_| StoreError::new(StoreErrorKind::Unavailable, "the connection was not opened"))
    }

    /// Closes it after whoever has it.
    pub(in crate::store) async fn close(&self) {
        if let Some(connection) = self.slot.lock().await.take() {
            connection.close().await.ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_transaction_that_sqlite_ended_itself_does_not_stay_open() {
        let one = One::new("sqlite::memory:".parse().unwrap(), false);
        {
            let mut connection = one.take().await.unwrap();
            let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
            // As a full disk does: the driver's own rollback then fails.
            sqlx::raw_sql("ROLLBACK").execute(&mut *tx).await.unwrap();
        }
        let mut connection = one.take().await.unwrap();
        let tx = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        tx.commit().await.unwrap();
    }
}

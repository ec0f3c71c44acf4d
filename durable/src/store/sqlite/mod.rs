//! SQLite: one file, one writing connection for each process, times in microseconds.
//!
//! Guarantees WAL with `synchronous = FULL`, writes that begin immediately, and a file that is not on a network
//! mount. Layer: store.

mod one;

use std::collections::HashMap;
use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Row, Sqlite, SqliteConnection};

pub(super) use one::{One, Taken};

use super::{Result, StoreError, StoreErrorKind};
use crate::model::Micros;

/// A SQLite database.
pub(super) struct SqliteStore {
    /// The one connection that writes; in memory it is the only one.
    pub(super) write: One,
    /// `None` in memory.
    read: Option<SqlitePool>,
    options: SqliteConnectOptions,
    /// `None` in memory.
    pub(super) path: Option<PathBuf>,
    /// The lock files of the executors of this process, held as long as they live.
    pub(super) locks: Locks,
}

/// How long a writer waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Held lock files by executor.
pub(super) type Locks = Arc<Mutex<HashMap<String, File>>>;

impl SqliteStore {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let in_memory = url.starts_with("sqlite::memory:") || url == "sqlite://:memory:";
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .busy_timeout(BUSY_TIMEOUT)
            .synchronous(SqliteSynchronous::Full)
            // 64 MiB: with the default of 2 MiB a batch over many workflows reads its pages again and again.
            .pragma("cache_size", "-65536")
            .disable_statement_logging();
        // A database in memory has no journal to write ahead to.
        let options = if in_memory { options } else { options.journal_mode(SqliteJournalMode::Wal) };
        let path = (!in_memory).then(|| options.get_filename().to_owned());
        if let Some(path) = &path {
            refuse_network_mount(path)?;
        }
        let write = One::new(options.clone(), in_memory);
        let read = (!in_memory).then(|| {
            SqlitePoolOptions::new()
                .max_connections(2)
                .test_before_acquire(false)
                .acquire_timeout(Duration::from_secs(30))
                .idle_timeout(None)
                .max_lifetime(None)
                .connect_lazy_with(options.clone())
        });
        let store = Self { write, read, options, path, locks: Locks::default() };
        store.open_first().await.map_err(|error| store.explain(error))?;
        Ok(store)
    }

    /// The first connection turns a new file to WAL. Where several processes do that at once, SQLite answers all but
    /// one with "busy" and does not wait, whatever the timeout.
    async fn open_first(&self) -> Result<()> {
        let give_up_at = tokio::time::Instant::now() + BUSY_TIMEOUT;
        loop {
            match self.check_library().await {
                Err(error) if error.kind == StoreErrorKind::Retry && tokio::time::Instant::now() < give_up_at => {
                    tokio::time::sleep(Duration::from_millis(5 + fastrand::u64(..20))).await;
                }
                done => return done,
            }
        }
    }

    async fn check_library(&self) -> Result<()> {
        let mut connection = self.write.take().await?;
        let version: String = sqlx::query("SELECT sqlite_version()").fetch_one(&mut *connection).await?.try_get(0)?;
        let parts: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
        if parts < vec![3, 51, 3] {
            return Err(StoreError::new(
                StoreErrorKind::Configuration,
                format!("SQLite {version} can corrupt a write-ahead log when it restarts it; link 3.51.3 or later"),
            ));
        }
        Ok(())
    }

    /// A connection to read with: in memory the one that writes.
    pub(super) async fn reader(&self) -> Result<Reader> {
        Ok(match &self.read {
            Some(pool) => Reader::Pooled(pool.acquire().await?),
            None => Reader::Taken(self.write.take().await?),
        })
    }

    /// A connection for what must not wait for the others; in memory there is only one.
    pub(super) fn apart(&self) -> One {
        if self.path.is_none() { self.write.clone() } else { One::new(self.options.clone(), false) }
    }

    pub(super) fn hold(&self, executor_id: &str, lock: File) {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).insert(executor_id.to_owned(), lock);
    }

    /// Names the file in an error of opening it.
    pub(super) fn explain(&self, error: StoreError) -> StoreError {
        match &self.path {
            Some(path) if error.kind != StoreErrorKind::Configuration => {
                let shown = path.display();
                // What has no cause in the database is about what it holds.
                let Some(source) = std::error::Error::source(&error).map(ToString::to_string) else { return error };
                StoreError::new(
                    error.kind,
                    format!(
                        "the database file `{shown}` can't be opened: {source}; check that the folder exists and is writable"
                    ),
                )
            }
            _ => error,
        }
    }
}

/// A connection that reads, until it is dropped.
pub(super) enum Reader {
    Pooled(PoolConnection<Sqlite>),
    Taken(Taken),
}

impl Deref for Reader {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        match self {
            Self::Pooled(connection) => connection,
            Self::Taken(connection) => connection,
        }
    }
}

impl DerefMut for Reader {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        match self {
            Self::Pooled(connection) => connection,
            Self::Taken(connection) => connection,
        }
    }
}

/// Network file systems by the numbers of statfs(2): NFS, SMB, SMB2, CIFS, AFS, Coda, Ceph, Lustre, GPFS, 9P.
const NETWORK: [u32; 10] = [
    0x6969,
    0x517b,
    0xfe53_4d42,
    0xff53_4d42,
    0x5346_414f,
    0x7375_7245,
    0x00c3_6400,
    0x0bd0_0bd0,
    0x4750_4653,
    0x0102_1997,
];

/// File locks and shared memory of a write-ahead log don't work between machines.
fn refuse_network_mount(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    #[cfg(target_os = "linux")]
    if let Ok(stat) = rustix::fs::statfs(folder) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the magic numbers are 32 bits")]
        let kind = stat.f_type as u32;
        return refuse_file_system(path, kind);
    }
    Ok(())
}

fn refuse_file_system(path: &Path, kind: u32) -> Result<()> {
    if !NETWORK.contains(&kind) {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::Configuration,
        format!(
            "`{}` is on a network mount, where SQLite's locks don't hold; use Postgres to share work between machines",
            path.display()
        ),
    ))
}

/// The clock of SQLite is the machine's: all processes on one file share it.
pub(super) fn now() -> Micros {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
}

/// A statement with its row repeated. The files are written with one row, on the line that starts with
/// `FROM (VALUES (`. Parameters have no numbers: finding a numbered one takes SQLite a walk over all of them.
pub(super) fn with_rows(text: &str, rows: usize) -> String {
    let mut out = String::with_capacity(text.len() + rows * 64);
    for line in text.lines() {
        match line.trim_start().strip_prefix("FROM (VALUES (").and_then(|rest| rest.split_once(')')) {
            Some((row, rest)) => {
                out.push_str("FROM (VALUES ");
                out.push_str(&vec![format!("({row})"); rows].join(","));
                out.push_str(rest);
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

super::row::readers!(SqliteRow);

/// Ids as one JSON array.
pub(super) fn ids_json(ids: &[Arc<str>]) -> String {
    // A list of strings always has a JSON text.
    serde_json::to_string(&ids.iter().map(|id| &**id).collect::<Vec<_>>()).unwrap_or_default()
}

/// Names and versions as one JSON array of pairs.
pub(super) fn served_json(served: &[(&'static str, i32)]) -> String {
    serde_json::to_string(served).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_mount_is_refused_and_points_to_postgres() {
        let path = Path::new("/mnt/share/durable.db");
        // NFS, CIFS and SMB2 as the kernel tells them.
        for kind in [0x6969, 0xff53_4d42, 0xfe53_4d42] {
            let error = refuse_file_system(path, kind).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Configuration);
            assert!(error.message.contains("/mnt/share/durable.db") && error.message.contains("Postgres"), "{error}");
        }
        // ext4, XFS, Btrfs, tmpfs, overlay, ZFS.
        for kind in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
            assert!(refuse_file_system(path, kind).is_ok(), "{kind:x}");
        }
    }
}

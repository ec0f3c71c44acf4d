//! SQLite: settings, numbers, several writers, small and unwritable disks, and files that are none.

use std::fs;
use std::path::Path;
use std::time::Duration;

use durable::{Builder, Error, ErrorKind, step, workflow};
use durable_tests::sqlite;
use sqlx::{Connection, SqliteConnection};

use crate::support::{endless, eventually, quick, runtime, source, sum_of};

async fn open(url: &str) -> SqliteConnection {
    SqliteConnection::connect(url).await.unwrap()
}

async fn number(connection: &mut SqliteConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

async fn refused(url: &str) -> Error {
    let build = tokio::time::timeout(Duration::from_secs(60), Builder::new().url(url).build());
    build.await.unwrap().map(drop).unwrap_err()
}

#[tokio::test]
async fn the_library_is_one_that_does_not_damage_a_write_ahead_log() {
    let version: String = {
        let mut connection = open("sqlite::memory:").await;
        sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut connection).await.unwrap()
    };
    let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    assert!(parts >= vec![3, 51, 3], "{version}");
    // And it is looked at in every program, not only in this one.
    assert!(source("store/sqlite/mod.rs").contains("vec![3, 51, 3]"));
}

#[step]
async fn same(number: u64) -> u64 {
    number
}

#[workflow]
async fn keeps(number: u64, fraction: f64) -> (u64, i64, f64, String) {
    (same(number).await, i64::MIN, fraction, number.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_beyond_a_double_survive() {
    let file = sqlite::fresh_database();
    let runtime = runtime(file.url()).await;
    for number in [u64::MAX, (1 << 53) + 1, 0, i64::MAX as u64 + 7] {
        let result = runtime.enter(async move { keeps::start(number, 0.1).await.unwrap().result().await.unwrap() });
        assert_eq!(result.await, (number, i64::MIN, 0.1, number.to_string()));
        let mut connection = open(file.url()).await;
        let stored: (String, String) =
            sqlx::query_as("SELECT output, typeof(output) FROM workflow_steps ORDER BY started_at DESC LIMIT 1")
                .fetch_one(&mut connection)
                .await
                .unwrap();
        assert_eq!(stored, (number.to_string(), "text".to_owned()));
    }
    let mut connection = open(file.url()).await;
    let loose = "SELECT count(*) FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND NOT strict
                 AND name NOT LIKE 'sqlite_%'";
    assert_eq!(number(&mut connection, loose).await, 0);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_has_a_write_ahead_log_that_stays_small() {
    let file = sqlite::fresh_database();
    let runtimes = [runtime(file.url()).await, runtime(file.url()).await];
    let mut largest = 0;
    for round in 0..20 {
        let mut runs = Vec::new();
        for (n, runtime) in (0..).zip(&runtimes) {
            for first in 0..16 {
                let id = format!("{round}-{n}-{first}");
                runs.push(runtime.enter(async move { sum_of::start(first, 20).id(id).await.unwrap() }).await);
            }
        }
        for run in runs {
            run.result().await.unwrap();
        }
        let log = fs::metadata(format!("{}-wal", file.path().display())).map_or(0, |file| file.len());
        largest = largest.max(log);
    }
    let mut connection = open(file.url()).await;
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut connection).await.unwrap();
    assert_eq!(mode, "wal");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM workflow_steps").await, 20 * 2 * 16 * 20);
    // A thousand pages are written back as a rule; readers and the other process may put that off for a while.
    assert!(largest < 24 << 20, "{largest} bytes");
    for runtime in runtimes {
        runtime.shutdown().await;
    }
}

/// Every connection that the library opens is made from the same options.
#[test]
fn every_connection_syncs_and_waits_its_turn() {
    let text = source("store/sqlite/mod.rs");
    for setting in [
        "SqliteSynchronous::Full",
        "SqliteJournalMode::Wal",
        "busy_timeout(BUSY_TIMEOUT)",
        "BUSY_TIMEOUT: Duration = Duration::from_secs(5)",
    ] {
        assert!(text.contains(setting), "{setting}");
    }
    for file in crate::support::sources("rs") {
        let opened = file.text.matches("SqliteConnectOptions::").count();
        assert_eq!(opened, usize::from(file.path == Path::new("store/sqlite/mod.rs")), "{}", file.path.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_holds_the_file_delays_and_fails_nothing() {
    let file = sqlite::fresh_database();
    let runtime = runtime(file.url()).await;
    let run = runtime.enter(async { endless::start(1).await.unwrap() }).await;
    let mut other = open(file.url()).await;
    // Longer than the time that a statement waits for its turn.
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let started = tokio::spawn(runtime.enter(async { sum_of::start(1, 3).await.unwrap().result().await.unwrap() }));
    tokio::time::sleep(Duration::from_secs(7)).await;
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    let sum = tokio::time::timeout(Duration::from_secs(45), started).await.unwrap().unwrap();
    assert_eq!(sum, 6);
    run.cancel().await.unwrap();
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_place_that_can_hold_no_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().display().to_string();
    for (url, kinds) in [
        (format!("sqlite://{shown}/none/durable.db"), &[ErrorKind::Unavailable, ErrorKind::Configuration][..]),
        (format!("sqlite://{shown}"), &[ErrorKind::Unavailable, ErrorKind::Configuration][..]),
    ] {
        let error = refused(&url).await;
        assert!(kinds.contains(&error.kind()), "{error:?}");
        assert!(error.to_string().contains(&shown), "{error:?}");
        assert!(error.to_string().contains("folder"), "{error:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named_and_left_alone() {
    let file = sqlite::fresh_database();
    let text = "a letter, not a database\n".repeat(200);
    fs::write(file.path(), &text).unwrap();
    let error = refused(file.url()).await;
    assert_eq!(error.kind(), ErrorKind::Undecodable, "{error:?}");
    assert!(error.to_string().contains(&file.path().display().to_string()), "{error:?}");
    assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
}

/// Mounts a folder over itself, read-only: root may write everywhere else. False if this user may not.
fn mount_read_only(folder: &Path) -> bool {
    let mount = |args: &[&str]| {
        let done = std::process::Command::new("mount").args(args).arg(folder).output();
        done.is_ok_and(|done| done.status.success())
    };
    let shown = folder.display().to_string();
    mount(&["--bind", &shown]) && mount(&["-o", "remount,bind,ro"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_written_is_named() {
    for exists in [false, true] {
        let file = sqlite::fresh_database();
        let folder = file.path().parent().unwrap();
        if exists {
            let mut made = open(&format!("{}?mode=rwc", file.url())).await;
            sqlx::raw_sql("CREATE TABLE theirs (id INTEGER)").execute(&mut made).await.unwrap();
            made.close().await.unwrap();
        }
        if !mount_read_only(folder) {
            // Where nothing can be mounted, a folder without rights is as good, unless the user is root.
            return;
        }
        let error = refused(file.url()).await;
        drop(std::process::Command::new("umount").arg("-l").arg(folder).output());
        let kinds = [ErrorKind::ReadOnly, ErrorKind::PermissionDenied, ErrorKind::Unavailable];
        assert!(kinds.contains(&error.kind()), "{error:?}");
        assert!(error.to_string().contains(&file.path().display().to_string()), "{error:?}");
        assert!(error.to_string().contains("writable"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_refuses_to_write_is_named_at_the_start() {
    let file = sqlite::fresh_database();
    runtime(file.url()).await.shutdown().await;
    let mut connection = open(file.url()).await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON executors BEGIN SELECT raise(ABORT, 'no more executors'); END";
    sqlx::raw_sql(refuse).execute(&mut connection).await.unwrap();
    let error = refused(file.url()).await;
    assert!(error.to_string().contains(&file.path().display().to_string()), "{error:?}");
    assert!(error.to_string().contains("no more executors"), "{error:?}");
}

/// The first heartbeat may fail: a start tries again before it gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_heartbeat_that_fails_is_tried_again() {
    let file = sqlite::fresh_database();
    runtime(file.url()).await.shutdown().await;
    let mut connection = open(file.url()).await;
    let refuse = "CREATE TRIGGER refuse BEFORE UPDATE OF heartbeat_at ON executors
                  BEGIN SELECT raise(FAIL, 'not yet'); END";
    sqlx::raw_sql(refuse).execute(&mut connection).await.unwrap();
    let start = tokio::spawn(quick(file.url()).heartbeat(Duration::from_secs(2)).grace(Duration::from_secs(6)).build());
    eventually(Duration::from_secs(20), "the executor is recorded", async || {
        number(&mut connection, "SELECT count(*) FROM executors WHERE status = 'alive'").await > 0
    })
    .await;
    sqlx::raw_sql("DROP TRIGGER refuse").execute(&mut connection).await.unwrap();
    start.await.unwrap().unwrap().shutdown().await;
}

/// A file system with this much room, or none if this user may not mount one.
struct Small(tempfile::TempDir);

impl Small {
    fn new(bytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(folder.path())
            .output();
        mount.is_ok_and(|done| done.status.success()).then_some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg("-l").arg(self.0.path()).output());
    }
}

#[step]
async fn large(number: usize) -> String {
    "x".repeat(20_000 + number)
}

#[workflow]
async fn fills(steps: usize) -> usize {
    let mut size = 0;
    for number in 0..steps {
        size += large(number).await.len();
    }
    size
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_a_workflow_until_there_is_room() {
    // Where nothing can be mounted the promise is tested elsewhere.
    let Some(disk) = Small::new(8 << 20) else { return };
    let url = format!("sqlite://{}/durable.db", disk.0.path().display());
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![0; 5 << 20]).unwrap();
    let runtime = quick(&url).build().await.unwrap();
    let run = runtime.enter(async { fills::start(100).await.unwrap() }).await;
    eventually(Duration::from_secs(60), "a start says that there is no room", async || {
        let started = runtime.enter(async { keeps::start(1, 0.5).await.map(drop) }).await;
        match started {
            Ok(()) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error:?}");
                assert!(error.to_string().contains("room"), "{error:?}");
                true
            }
        }
    })
    .await;
    fs::remove_file(&ballast).unwrap();
    let size = tokio::time::timeout(Duration::from_secs(90), run.result()).await.unwrap().unwrap();
    assert_eq!(size, (0..100).map(|number| 20_000 + number).sum::<usize>());
    runtime.shutdown().await;
}

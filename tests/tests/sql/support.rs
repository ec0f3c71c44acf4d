//! What the cases share: the library's files, runtimes, and the workflows they run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use durable::{Builder, Runtime, step, workflow};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// A source file of the library: its path below `durable/src`, and its text.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Every file of the library with this extension.
pub(crate) fn sources(extension: &str) -> Vec<Source> {
    let root = library().join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path: path.strip_prefix(&root).unwrap().to_owned(), text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(!found.is_empty());
    found
}

/// One file of the library, by its path below `durable/src`.
pub(crate) fn source(path: &str) -> String {
    fs::read_to_string(library().join("src").join(path)).unwrap()
}

/// The folder of the library.
pub(crate) fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../durable")
}

/// A builder with short times, so that a case does not wait.
pub(crate) fn quick(url: &str) -> Builder {
    Builder::new()
        .url(url)
        .heartbeat(Duration::from_millis(100))
        .grace(Duration::from_millis(600))
        .poll(Duration::from_millis(50))
        .cancel_grace(Duration::from_millis(200))
}

/// A runtime on a database.
pub(crate) async fn runtime(url: &str) -> Runtime {
    quick(url).build().await.unwrap()
}

pub(crate) async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

/// Runs statements that return nothing.
pub(crate) async fn execute(connection: &mut PgConnection, sql: &str) {
    if let Err(error) = sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await {
        panic!("{error}: {sql}");
    }
}

/// One number.
pub(crate) async fn count(connection: &mut PgConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await.unwrap()
}

/// Asks again until the answer is yes.
pub(crate) async fn eventually(within: Duration, what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !ask().await {
        assert!(begun.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A step that returns what it got.
#[step]
pub(crate) async fn echo(number: u64) -> u64 {
    number
}

/// Several steps one after the other; their sum.
#[workflow]
pub(crate) async fn sum_of(first: u64, steps: u64) -> u64 {
    let mut sum = 0;
    for number in first..first + steps {
        sum += echo(number).await;
    }
    sum
}

/// Steps until it is stopped.
#[workflow]
pub(crate) async fn endless(pause_ms: u64) -> u64 {
    let mut number = 0;
    loop {
        number = pause(number + 1, pause_ms).await;
    }
}

#[step]
pub(crate) async fn pause(number: u64, pause_ms: u64) -> u64 {
    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    number
}

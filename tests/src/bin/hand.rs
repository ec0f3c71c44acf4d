//! One of many executors on the same queues: its bodies write when they begin and end, and it serves until it is killed.
//!
//! `hand URL EFFECTS`: a line of the effects is `queue:id begins|ends pid microseconds`, by the machine's monotonic
//! clock, which all processes share.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use durable::{Builder, step, workflow};

static EFFECTS: OnceLock<PathBuf> = OnceLock::new();

/// One line in one write: a kill leaves all of it or nothing.
fn effect(what: &str, name: &str) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    let line = format!("{name} {what} {} {micros}\n", std::process::id());
    let path = EFFECTS.get().map(PathBuf::as_path).unwrap_or_else(|| "effects".as_ref());
    let written =
        OpenOptions::new().append(true).create(true).open(path).and_then(|mut file| file.write_all(line.as_bytes()));
    if written.is_err() {
        std::process::abort();
    }
}

#[step]
async fn touch(name: &str, ms: u64) {
    effect("begins", name);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    effect("ends", name);
}

#[workflow]
async fn task(name: String, ms: u64) -> String {
    touch(&name, ms).await;
    name
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(effects)) = (arguments.next(), arguments.next()) else { anyhow::bail!("hand URL EFFECTS") };
    let _ = EFFECTS.set(effects.into());
    let builder = Builder::new()
        .url(url)
        .heartbeat(Duration::from_millis(100))
        .grace(Duration::from_millis(500))
        .max_recoveries(1_000)
        .max_running(200)
        .pool_size(2);
    let _runtime = builder.init().await?;
    durable::recover().await?;
    std::io::stdout().write_all(b"ready\n")?;
    std::future::pending().await
}

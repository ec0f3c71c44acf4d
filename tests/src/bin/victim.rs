//! The program that the crash tests kill: workflows whose steps leave one line each in a file, and flags that set the
//! runtime.
//!
//! `victim URL EFFECTS [--flag value]..` recovers what is there, starts what `--start kind/id/count/steps/ms` names
//! (`count` runs, with a number behind the id if it is above 1), and serves until SIGTERM. A line of the effects is
//! `workflow branch:index pid`, written when the body of that step begins; after `--cancel ID` there is one more.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use durable::{Failure, step, workflow};

static EFFECTS: OnceLock<PathBuf> = OnceLock::new();

/// One line in one write: a kill leaves all of it or nothing.
fn effect(workflow: &str, place: &str) {
    let line = format!("{workflow} {place} {}\n", std::process::id());
    let path = EFFECTS.get().map(PathBuf::as_path).unwrap_or_else(|| "effects".as_ref());
    let written =
        OpenOptions::new().append(true).create(true).open(path).and_then(|mut file| file.write_all(line.as_bytes()));
    if written.is_err() {
        // An effect that can't be counted would be a lie.
        std::process::abort();
    }
}

/// Waits for a file beside the effects: the test opens the gate.
async fn gate(name: &str) {
    let path = EFFECTS.get().map(|path| path.with_file_name(name)).unwrap_or_default();
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[step]
async fn work(name: &str, place: String, value: u64, ms: u64) -> u64 {
    effect(name, &place);
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    value
}

/// Steps one after the other.
#[workflow]
async fn steps(name: String, steps: u64, ms: u64) -> u64 {
    let mut sum = 0;
    for n in 0..steps {
        sum += work(&name, format!(":{n}"), n + 1, ms).await;
    }
    sum
}

async fn arm(name: &str, branch: &str, steps: u64, ms: u64) -> u64 {
    let mut sum = 0;
    for n in 0..steps {
        sum += work(name, format!("{branch}:{n}"), n + 1, ms).await;
    }
    sum
}

/// Three arms of a `join!`, then three items of a `map`.
#[workflow]
async fn arms(name: String, steps: u64, ms: u64) -> u64 {
    let name = &name;
    let (a, b, c) =
        durable::join!(arm(name, "0.0", steps, ms), arm(name, "0.1", steps, ms), arm(name, "0.2", steps, ms));
    let mapped = durable::map(0..3, 3, |item| async move { arm(name, &format!("1.{item}"), steps, ms).await }).await;
    a + b + c + mapped.iter().sum::<u64>()
}

#[step]
async fn gated_step(name: &str) -> u64 {
    effect(name, ":1");
    gate("gate").await;
    2
}

/// A step, one that waits for the test, and one more.
#[workflow]
async fn gated(name: String, _steps: u64, ms: u64) -> u64 {
    let before = work(&name, ":0".to_owned(), 1, ms).await;
    let waited = gated_step(&name).await;
    before + waited + work(&name, ":2".to_owned(), 3, ms).await
}

#[step]
async fn die(name: &str, ms: u64) -> u64 {
    effect(name, ":1");
    tokio::time::sleep(Duration::from_millis(ms)).await;
    std::process::abort()
}

/// A step, and one that takes the process with it.
#[workflow]
async fn poison(name: String, _steps: u64, ms: u64) -> u64 {
    work(&name, ":0".to_owned(), 1, 0).await + die(&name, ms).await
}

#[step]
async fn block(name: &str, place: String, ms: u64) -> u64 {
    effect(name, &place);
    std::thread::sleep(Duration::from_millis(ms));
    1
}

/// Steps that block the threads of the runtime.
#[workflow]
async fn blocking(name: String, steps: u64, ms: u64) -> u64 {
    let mut sum = 0;
    for n in 0..steps {
        sum += block(&name, format!(":{n}"), ms).await;
    }
    sum
}

#[step]
async fn query(name: &str, place: String, ms: u64) -> Result<u64, Failure> {
    effect(name, &place);
    let pool = durable::state::<sqlx::PgPool>();
    let seconds = Duration::from_millis(ms).as_secs_f64();
    let asked = sqlx::query("SELECT pg_sleep($1)").bind(seconds).execute(&*pool).await;
    asked.map(|_| 1).map_err(|error| Failure::permanent(error.to_string()))
}

/// Steps that hold the connections of the pool that the runtime uses too.
#[workflow]
async fn querying(name: String, steps: u64, ms: u64) -> Result<u64, Failure> {
    let mut sum = 0;
    for n in 0..steps {
        sum += query(&name, format!(":{n}"), ms).await?;
    }
    Ok(sum)
}

#[step]
async fn refuse(name: &str, place: String) -> Result<u64, Failure> {
    effect(name, &place);
    Err(Failure::permanent(format!("no\0{name}\u{1}\u{ffff}")))
}

/// A step whose error holds a character that Postgres stores in no text, handled by the workflow.
#[workflow]
async fn refused(name: String, _steps: u64, ms: u64) -> u64 {
    let failed = refuse(&name, ":0".to_owned()).await.is_err();
    u64::from(failed) + work(&name, ":1".to_owned(), 1, ms).await
}

/// `--flag value`, each flag as often as it comes.
struct Flags(HashMap<String, Vec<String>>);

impl Flags {
    fn all(&self, flag: &str) -> &[String] {
        self.0.get(flag).map_or(&[], Vec::as_slice)
    }

    fn number(&self, flag: &str) -> anyhow::Result<Option<u64>> {
        Ok(self.all(flag).last().map(|value| value.parse()).transpose()?)
    }

    fn duration(&self, flag: &str, default: u64) -> anyhow::Result<Duration> {
        Ok(Duration::from_millis(self.number(flag)?.unwrap_or(default)))
    }
}

async fn start(kind: &str, id: String, count: u64, ms: u64) -> anyhow::Result<()> {
    match kind {
        "steps" => drop(steps::start(id.clone(), count, ms).id(id).await?),
        "arms" => drop(arms::start(id.clone(), count, ms).id(id).await?),
        "gated" => drop(gated::start(id.clone(), count, ms).id(id).await?),
        "poison" => drop(poison::start(id.clone(), count, ms).id(id).await?),
        "blocking" => drop(blocking::start(id.clone(), count, ms).id(id).await?),
        "querying" => drop(querying::start(id.clone(), count, ms).id(id).await?),
        "refused" => drop(refused::start(id.clone(), count, ms).id(id).await?),
        _ => anyhow::bail!("no workflow `{kind}`"),
    }
    Ok(())
}

/// All at once, as a busy program would.
async fn start_all(spec: &str) -> anyhow::Result<()> {
    let parts: Vec<&str> = spec.split('/').collect();
    let &[kind, id, count, steps, ms] = parts.as_slice() else { anyhow::bail!("`{spec}` is not a start") };
    let (count, steps, ms) = (count.parse::<u64>()?, steps.parse()?, ms.parse()?);
    let mut starts = tokio::task::JoinSet::new();
    for n in 0..count {
        let (kind, id) = (kind.to_owned(), if count == 1 { id.to_owned() } else { format!("{id}{n}") });
        starts.spawn(async move { start(&kind, id, steps, ms).await });
    }
    while let Some(started) = starts.join_next().await {
        started??;
    }
    Ok(())
}

fn flags(mut args: impl Iterator<Item = String>) -> anyhow::Result<Flags> {
    let mut flags = Flags(HashMap::new());
    while let Some(flag) = args.next() {
        let value = args.next().ok_or_else(|| anyhow::anyhow!("`{flag}` needs a value"))?;
        flags.0.entry(flag).or_default().push(value);
    }
    Ok(flags)
}

#[expect(clippy::print_stdout, reason = "the test reads what was recovered")]
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(effects)) = (args.next(), args.next()) else { anyhow::bail!("victim URL EFFECTS") };
    EFFECTS.get_or_init(|| effects.into());
    let flags = flags(args)?;
    let mut builder = durable::Builder::new()
        .executor_name(flags.all("--name").last().map_or("victim", String::as_str))
        .heartbeat(flags.duration("--heartbeat", 100)?)
        .grace(flags.duration("--grace", 400)?)
        .lease(flags.duration("--lease", 30_000)?)
        .poll(flags.duration("--poll", 1_000)?)
        .cancel_grace(flags.duration("--cancel-grace", 5_000)?);
    if let Some(recoveries) = flags.number("--max-recoveries")? {
        builder = builder.max_recoveries(u32::try_from(recoveries)?);
    }
    if let Some(running) = flags.number("--max-running")? {
        builder = builder.max_running(usize::try_from(running)?);
    }
    // One pool for the runtime and the steps, as a program with its own pool has it.
    builder = match flags.number("--shared-pool")? {
        Some(connections) => {
            let options = sqlx::postgres::PgPoolOptions::new().max_connections(u32::try_from(connections)?);
            let pool = options.connect(&url).await?;
            builder.pool(pool.clone()).state(pool)
        }
        None => builder.url(url),
    };
    builder.init().await?;
    if flags.all("--recover").last().is_none_or(|word| word != "no") {
        println!("{}", durable::recover().await?);
    }
    for spec in flags.all("--start") {
        start_all(spec).await?;
    }
    for id in flags.all("--cancel") {
        durable::handle::<steps>(id).cancel().await?;
        effect(id, "cancelled");
    }
    for id in flags.all("--resume") {
        durable::handle::<poison>(id).resume().await?;
    }
    for id in flags.all("--result") {
        match durable::handle::<poison>(id).result().await {
            Ok(value) => println!("result of {id}: {value}"),
            Err(error) => println!("result of {id}: {:?}", error.kind()),
        }
    }
    println!("ready");
    terminate.recv().await;
    durable::shutdown().await;
    Ok(())
}

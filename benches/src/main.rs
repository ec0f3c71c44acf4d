//! `cargo run --release -p durable-bench -- --store postgres`: what durability costs, against the raw limit of the same
//! database, driver and runtime in the same minutes.
//!
//! Figures are ratios: each work alternates with its raw twin, and the medians are compared. Durability is on
//! (`fsync`, `synchronous_commit`; SQLite `FULL`).
#![expect(clippy::print_stdout, reason = "a program talks to its terminal")]

mod child;
mod database;
mod machine;
mod process;
mod raw;
mod report;
mod works;

use clap::{Parser, ValueEnum};

use crate::child::Task;
use crate::database::Database;
use crate::report::Report;

/// Measures durable against the raw limit of its database.
#[derive(Parser)]
struct Arguments {
    /// The database to measure on; it starts its own.
    #[arg(long, value_enum)]
    store: Store,
    /// A Postgres server to use instead: postgres://user@host/database, emptied before each work.
    #[arg(long)]
    url: Option<String>,
    /// One work, or all of a family (`replay`, `payload`), instead of all works.
    #[arg(long)]
    work: Option<String>,
    /// Fewer rounds, and fewer rows under a claim.
    #[arg(long)]
    quick: bool,
    /// One JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
    /// What this process is started for by another of its kind, on its database.
    #[arg(long, value_enum, hide = true, requires = "url")]
    child: Option<Task>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    Postgres,
    Sqlite,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match (arguments.child, &arguments.url) {
        (Some(task), Some(url)) => runtime.block_on(child::run(task, url)),
        _ => runtime.block_on(measure(&arguments)),
    }
}

async fn measure(arguments: &Arguments) -> anyhow::Result<()> {
    let works = works::named(arguments.work.as_deref())?;
    let rounds = if arguments.quick { 3 } else { 7 };
    if !arguments.json {
        println!("{}", Report::heading());
    }
    let mut settings = String::new();
    let mut notes = Vec::new();
    for work in works {
        let database = Database::fresh(arguments.store, arguments.url.as_deref()).await?;
        let report = works::measure(&work, &database, rounds, arguments.quick).await?;
        println!("{}", if arguments.json { serde_json::to_string(&report)? } else { report.row() });
        notes.extend(report.note);
        settings = database.settings().await?;
        database.clear().await?;
    }
    if !arguments.json {
        notes.iter().for_each(|note| println!("{note}"));
        println!("{}; {settings}", machine::words());
    }
    Ok(())
}

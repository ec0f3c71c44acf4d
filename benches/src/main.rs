//! `cargo run --release -p durable-bench -- --store postgres`: what durability costs, against the raw limit of the same
//! database, driver and runtime in the same minutes.
//!
//! Figures are ratios: each work alternates with its raw twin, and the medians are compared. Durability is on
//! (`fsync`, `synchronous_commit`; SQLite `FULL`).
#![expect(clippy::print_stdout, reason = "a program talks to its terminal")]

mod database;
mod process;
mod raw;
mod report;
mod works;

use clap::{Parser, ValueEnum};

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
    /// One work instead of all.
    #[arg(long)]
    work: Option<String>,
    /// Fewer rounds, and fewer rows under a claim.
    #[arg(long)]
    quick: bool,
    /// One JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    Postgres,
    Sqlite,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let rounds = if arguments.quick { 3 } else { 7 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let wanted =
            works::all().into_iter().filter(|work| arguments.work.as_ref().is_none_or(|name| *name == work.name));
        let mut found = false;
        if !arguments.json {
            println!("{}", Report::heading());
        }
        for work in wanted {
            found = true;
            let database = Database::fresh(arguments.store, arguments.url.as_deref()).await?;
            let report = works::measure(&work, &database, rounds, arguments.quick).await?;
            println!("{}", if arguments.json { serde_json::to_string(&report)? } else { report.row() });
        }
        anyhow::ensure!(found, "there is no such work; there are: {}", works::names());
        Ok(())
    })
}

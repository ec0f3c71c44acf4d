//! `cargo run --release --manifest-path benches/peers/Cargo.toml`: durable and its peers do the same works, in turns,
//! on the same server. Prints a line for each work; the figures are medians over the rounds.
#![expect(clippy::print_stdout, reason = "a program talks to its terminal")]

mod contestant;
mod database;
mod row;

use anyhow::{Result, ensure};
use clap::Parser;
use durable_peers_contest::{Work, all, names};

use crate::contestant::Contestant;
use crate::database::Server;
use crate::row::Row;

/// Compares durable with its peers.
#[derive(Parser)]
struct Arguments {
    /// A Postgres server to use instead of one of its own: postgres://user@host/database, whose user may create
    /// databases.
    #[arg(long)]
    url: Option<String>,
    /// One work instead of all.
    #[arg(long)]
    work: Option<String>,
    /// Three rounds instead of five, and fewer workflows through the queue.
    #[arg(long)]
    quick: bool,
    /// One JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let works: Vec<_> = all(arguments.quick)
        .into_iter()
        .filter(|work| arguments.work.as_ref().is_none_or(|name| name == work.name))
        .collect();
    ensure!(!works.is_empty(), "there is no such work; there are: {}", names());
    let contestants = Contestant::build_all()?;
    let rounds = if arguments.quick { 3 } else { 5 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::start(arguments.url.as_deref()).await?;
        if !arguments.json {
            println!("{}", Row::heading());
        }
        for work in &works {
            let row = compare(&server, &contestants, work, rounds, arguments.quick).await?;
            println!("{}", if arguments.json { serde_json::to_string(&row)? } else { row.line() });
        }
        Ok(())
    })
}

/// In turns, and each round begins with another, so that none always has what the one before it left to the server.
async fn compare(
    server: &Server,
    contestants: &[Contestant; 3],
    work: &Work,
    rounds: usize,
    quick: bool,
) -> Result<Row> {
    let mut figures: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds {
        for turn in 0..contestants.len() {
            let who = (round + turn) % contestants.len();
            let database = server.fresh(work.store).await?;
            let answer = contestants[who].measure(work, &database.url, quick).await;
            server.drop(database).await?;
            figures[who].extend(answer?.per_s);
        }
    }
    Ok(Row::new(work, figures))
}

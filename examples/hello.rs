//! The shortest durable program. Run it with the word `crash`, then without:
//! `cargo run --example hello -- crash` and `cargo run --example hello`.
#![expect(clippy::print_stdout, reason = "a program talks to its terminal")]

use durable::{step, workflow};

#[step]
async fn reserve(guest: &str) -> String {
    println!("reserving a table for {guest}");
    format!("table 7 for {guest}")
}

#[step]
async fn confirm(table: &str) -> String {
    if std::env::args().any(|word| word == "crash") {
        println!("crashing before the confirmation");
        std::process::abort();
    }
    println!("confirming {table}");
    format!("{table}, confirmed")
}

#[workflow]
async fn hello(guest: String) -> String {
    let table = reserve(&guest).await; // after the crash this comes from its checkpoint and prints nothing
    confirm(&table).await
}

#[tokio::main]
async fn main() -> Result<(), durable::Error> {
    durable::init().await?;
    println!("{}", durable::recover().await?);
    let run = hello::start("Ada".to_owned()).id("dinner-ada").await?;
    println!("{}", run.result().await?);
    durable::shutdown().await;
    Ok(())
}

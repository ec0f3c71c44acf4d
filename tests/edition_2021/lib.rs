//! A crate of edition 2021, in which `impl Trait` captures fewer lifetimes and the temporaries of a tail expression
//! live longer: whatever compiles as a plain `async fn` compiles as a step or workflow.

#![deny(warnings)]

use std::sync::Mutex;

use durable::{step, workflow};
use serde::{de::DeserializeOwned, Serialize};

/// Borrows without saying so.
#[derive(Debug, Clone)]
pub struct Context<'a>(pub &'a str);

impl Context<'_> {
    /// `&self` and an argument, each with its own lifetime.
    #[step]
    pub async fn method(&self, word: &str) -> usize {
        std::future::ready(()).await;
        self.0.len() + word.len()
    }

    /// `&mut self`.
    #[step]
    pub async fn method_mut(&mut self, words: &[String]) -> usize {
        std::future::ready(()).await;
        self.0 = "";
        words.len()
    }

    /// `&self`, tried again.
    #[step(retry)]
    pub async fn method_retried(&self, word: &str, count: usize) -> usize {
        std::future::ready(()).await;
        self.0.len() + word.len() + count
    }
}

/// Several elided lifetimes, of which none is in the return type.
#[step]
pub async fn elided(context: Context<'_>, first: &str, log: &mut Vec<String>, rest: &[&str]) -> anyhow::Result<u32> {
    let number: u32 = first.parse()?;
    std::future::ready(()).await;
    log.push(format!("{}{rest:?}", context.0));
    Ok(number)
}

/// Named lifetimes and a type parameter that may borrow.
#[step]
pub async fn named<'a, 'b, T: Serialize + DeserializeOwned + Send>(first: &'a str, second: &'b str, value: T) -> T {
    std::future::ready(()).await;
    let _ = (first, second);
    value
}

/// A guard in the tail expression outlives the body's locals, not its arguments.
#[step]
pub async fn tail(number: Mutex<u32>) -> u32 {
    *number.lock().unwrap()
}

/// The same in a workflow.
#[workflow]
pub async fn tail_of_workflow(number: Mutex<u32>) -> u32 {
    *number.lock().unwrap()
}

/// A trait of steps.
pub trait Store: Sync {
    /// Each implementation is a step of its own.
    #[step]
    async fn read(&self, key: &str) -> String;

    /// A default.
    #[step]
    async fn read_twice(&self, key: &str) -> String {
        let first = self.read(key).await;
        first + &self.read(key).await
    }
}

impl Store for Context<'_> {
    #[step]
    async fn read(&self, key: &str) -> String {
        format!("{}{key}", self.0)
    }
}

/// Calls all of them, with borrows that end early.
pub async fn caller() -> anyhow::Result<()> {
    let text = String::from("3");
    let mut log = Vec::new();
    elided(Context(&text), &text, &mut log, &["a"]).await?;
    named(&text, "static", 3).await;
    let mut context = Context(&text);
    context.method(&text).await;
    context.method_retried(&text, 1).await;
    context.read_twice(&text).await;
    context.method_mut(&log).await;
    tail(Mutex::new(3)).await;
    Ok(())
}

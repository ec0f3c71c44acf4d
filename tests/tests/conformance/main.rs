//! Every promise of the contract, in one process, through the public API, on both stores.
//!
//! A crash is a dropped runtime: it ends with nothing released, as a killed process does. What needs a real kill is in
//! `crash`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on has failed")]

mod ambient;
mod attempts;
mod branches;
mod cancel;
mod damage;
mod dedup;
mod divergence;
mod enqueue;
mod errors;
mod events;
mod graph;
mod hostile;
mod lifetime;
mod limits;
mod misuse;
mod panics;
mod payloads;
mod plain_call;
mod queues;
mod refusals;
mod resume;
mod retry;
mod start;
mod steps;
mod support;
mod wakeups;

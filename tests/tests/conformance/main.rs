//! Every promise of the contract, in one process, through the public API, on both stores.
//!
//! A crash is a dropped runtime: it ends with nothing released, as a killed process does. What needs a real kill is in
//! `crash`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on has failed")]

mod ambient;
mod branches;
mod cancel;
mod damage;
mod divergence;
mod errors;
mod events;
mod hostile;
mod lifetime;
mod misuse;
mod panics;
mod payloads;
mod plain_call;
mod refusals;
mod resume;
mod retry;
mod start;
mod steps;
mod support;

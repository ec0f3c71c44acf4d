//! The databases: the statements, their plans, the migrations, and what each database does when it is not well.
//!
//! `DURABLE_TEST_ROWS` scales the largest table of the plan tests (default 200,000).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says no by a panic")]

mod claims;
mod connections;
mod files;
mod layers;
mod migrations;
mod plans;
mod races;
mod readme;
mod refusals;
mod sqlite;
mod support;

//! Fixtures that the promises are tested with: a database for each test, on either store.
//!
//! Guarantees that a test sees nothing of another test, that nothing of the machine's own servers is touched, and that
//! nothing is left behind, even when the test process is killed. What cannot be set up panics with one line.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use durable_tests::Store;
//!
//! let database = Store::Sqlite.fresh_database().await;
//! assert!(database.url().starts_with("sqlite:///"));
//! # });
//! ```
#![expect(clippy::panic, clippy::expect_used, reason = "a fixture that cannot be set up has nothing to hand back")]

pub mod postgres;
pub mod sqlite;
mod store;

#[doc(hidden)]
pub use store::run;
pub use store::{Database, Store};

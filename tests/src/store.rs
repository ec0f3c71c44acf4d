//! One suite over both stores.

use std::fmt;

use tempfile::TempDir;

use crate::{postgres, sqlite};

/// The stores that every promise holds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// One file.
    Sqlite,
    /// A server.
    Postgres,
}

impl Store {
    /// A database that nobody else uses, empty.
    pub async fn fresh_database(self) -> Database {
        match self {
            Self::Sqlite => {
                let file = sqlite::fresh_database();
                Database { store: self, url: file.url().to_owned(), _directory: Some(file.into_directory()) }
            }
            Self::Postgres => Database { store: self, url: postgres::fresh_database().await, _directory: None },
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        })
    }
}

/// A test's own database; a SQLite file goes when this does.
#[derive(Debug)]
pub struct Database {
    store: Store,
    url: String,
    _directory: Option<TempDir>,
}

impl Database {
    /// What the library is configured with.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it is.
    pub fn store(&self) -> Store {
        self.store
    }
}

/// Makes two tests of each async function that takes a [`Database`]: `name::sqlite` and `name::postgres`.
///
/// ```
/// durable_tests::on_both_stores! {
///     async fn a_promise_holds(database: Database) {
///         assert!(!database.url().is_empty());
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! on_both_stores {
    ($(
        $(#[$meta:meta])*
        async fn $name:ident($database:ident: Database) $body:block
    )*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "a body may need nothing from around it")]
            use super::*;

            $(#[$meta])*
            async fn case($database: $crate::Database) $body

            #[test]
            fn sqlite() {
                $crate::run(case, $crate::Store::Sqlite);
            }

            #[test]
            fn postgres() {
                $crate::run(case, $crate::Store::Postgres);
            }
        }
    )*};
}

/// Runs one case on one store, on a runtime of two threads that is gone afterwards.
#[doc(hidden)]
pub fn run<F: Future<Output = ()>>(case: impl FnOnce(Database) -> F, store: Store) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime needs two threads");
    runtime.block_on(async { case(store.fresh_database().await).await });
}

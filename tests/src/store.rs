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
                let url = file.url().to_owned();
                Database { store: self, url, pooled: None, _directory: Some(file.into_directory()) }
            }
            Self::Postgres => {
                Database { store: self, url: postgres::fresh_database().await, pooled: None, _directory: None }
            }
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
    /// The same by way of a transaction pooler.
    pooled: Option<String>,
    _directory: Option<TempDir>,
}

impl Database {
    /// A database on Postgres that the library reaches by way of PgBouncer in transaction mode.
    pub async fn behind_pooler() -> Self {
        let url = postgres::fresh_database().await;
        Self {
            store: Store::Postgres,
            pooled: Some(postgres::pooled(&url, postgres::Settings::Refused).await),
            url,
            _directory: None,
        }
    }

    /// What the library is configured with.
    pub fn url(&self) -> &str {
        self.pooled.as_deref().unwrap_or(&self.url)
    }

    /// For a test's own statements.
    pub fn direct_url(&self) -> &str {
        &self.url
    }

    /// True if the library has no sessions of the server's.
    pub fn is_pooled(&self) -> bool {
        self.pooled.is_some()
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
    ($($cases:tt)*) => { $crate::cases! { [sqlite postgres] $($cases)* } };
}

/// Makes these two, and `name::pooler`: Postgres behind a transaction pooler.
#[macro_export]
macro_rules! everywhere {
    ($($cases:tt)*) => { $crate::cases! { [sqlite postgres pooler] $($cases)* } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! cases {
    ($places:tt $(
        $(#[$meta:meta])*
        async fn $name:ident($database:ident: Database) $body:block
    )*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "a body may need nothing from around it")]
            use super::*;

            $(#[$meta])*
            async fn case($database: $crate::Database) $body

            $crate::case_in! { $places }
        }
    )*};
}

#[doc(hidden)]
#[macro_export]
macro_rules! case_in {
    ([$($place:ident)*]) => {$(
        #[test]
        fn $place() {
            $crate::run::$place(case);
        }
    )*};
}

/// Runs one case, on a runtime of two threads that is gone afterwards.
#[doc(hidden)]
pub mod run {
    use super::{Database, Store};

    pub fn sqlite<F: Future<Output = ()>>(case: impl FnOnce(Database) -> F) {
        on_two_threads(async { case(Store::Sqlite.fresh_database().await).await });
    }

    pub fn postgres<F: Future<Output = ()>>(case: impl FnOnce(Database) -> F) {
        on_two_threads(async { case(Store::Postgres.fresh_database().await).await });
    }

    pub fn pooler<F: Future<Output = ()>>(case: impl FnOnce(Database) -> F) {
        on_two_threads(async { case(Database::behind_pooler().await).await });
    }

    fn on_two_threads(case: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime needs two threads");
        runtime.block_on(case);
    }
}

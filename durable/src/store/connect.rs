//! From a URL to a store. Layer: store.

use std::sync::Arc;

use sqlx::PgPool;

use super::postgres::PostgresStore;
use super::sqlite::SqliteStore;
use super::{Result, Store, StoreError, StoreErrorKind, migrate};

/// Where the tables are.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// `postgres://…`, `postgresql://…`, `sqlite://…` or `sqlite::memory:`.
    Url(String),
    /// A pool of the user's.
    Pool(PgPool),
}

/// How to connect.
#[derive(Clone, Debug)]
pub(crate) struct StoreOptions {
    pub(crate) target: Target,
    pub(crate) schema: String,
    pub(crate) pool_size: u32,
    pub(crate) migrate: bool,
}

/// Connects, and brings the schema to this build's version or checks that it is there.
pub(crate) async fn connect(options: &StoreOptions) -> Result<Arc<dyn Store>> {
    let url = match &options.target {
        Target::Pool(pool) => {
            let store = PostgresStore::connect("", Some(pool.clone()), &options.schema, options.pool_size).await?;
            migrate::postgres::bring_up(&store, options.migrate).await?;
            return Ok(Arc::new(store));
        }
        Target::Url(url) => url,
    };
    let scheme = url.split(':').next().unwrap_or_default();
    match scheme {
        "postgres" | "postgresql" => {
            let store = PostgresStore::connect(url, None, &options.schema, options.pool_size).await?;
            migrate::postgres::bring_up(&store, options.migrate).await?;
            Ok(Arc::new(store))
        }
        "sqlite" => {
            let store = SqliteStore::connect(url).await?;
            migrate::sqlite::bring_up(&store, options.migrate).await.map_err(|error| store.explain(error))?;
            Ok(Arc::new(store))
        }
        "mysql" | "mariadb" => Err(StoreError::new(
            StoreErrorKind::Configuration,
            format!(
                "`{scheme}://` is not supported: durable keeps its tables in Postgres (postgres://…) or SQLite (sqlite://…)"
            ),
        )),
        _ => Err(StoreError::new(
            StoreErrorKind::Configuration,
            format!(
                "database URL with the scheme `{}` is not supported; use postgres://user@host/database or sqlite://file.db",
                scheme.chars().take(20).collect::<String>().escape_default()
            ),
        )),
    }
}

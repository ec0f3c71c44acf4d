//! A Postgres database for each test, on one server for the whole test process.
//!
//! The server is started from the installed binaries at the first call and stopped when the process ends, unless
//! `DURABLE_TEST_POSTGRES_URL` names one: then the databases are created there, and those of earlier runs dropped.

mod binaries;
mod cluster;
mod pooler;

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

pub use self::cluster::Cluster;
pub use self::pooler::{Settings, pooled};

/// Names a server to use instead of one of our own. Its user must be allowed to create databases.
const SERVER: &str = "DURABLE_TEST_POSTGRES_URL";

/// Databases of an earlier run on a named server are dropped after this time; a run takes less.
const STALE: Duration = Duration::from_secs(3 * 3600);

/// The URL of a database that nobody else uses, empty.
///
/// # Panics
/// There is no server and none can be started; says how to install the binaries.
pub async fn fresh_database() -> String {
    let url = server_url().await;
    create_database(&url).await
}

/// The URL of the database `postgres` on the server that all tests of this process share: for what has to be done as
/// a superuser, beside a test's own database.
pub async fn server_url() -> String {
    static SERVER_URL: OnceLock<String> = OnceLock::new();
    static OWN: OnceLock<Cluster> = OnceLock::new();
    if let Some(url) = SERVER_URL.get() {
        return url.clone();
    }
    match std::env::var(SERVER) {
        Ok(url) => {
            drop_stale_databases(&url).await;
            SERVER_URL.get_or_init(|| url).clone()
        }
        // Threads of other tests wait here for the one that starts it.
        Err(_) => {
            blocking(|| SERVER_URL.get_or_init(|| OWN.get_or_init(Cluster::launch).url("postgres")).clone()).await
        }
    }
}

/// Creates a database with a name of its own on the server of `url`, and gives its URL.
async fn create_database(url: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let born = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let name = format!("durable_test_{born}_{}_{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut server = connect(url).await;
    let create = format!("CREATE DATABASE {name} TEMPLATE template0");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut server).await.expect("the user may create databases");
    server.close().await.expect("the connection closes");
    with_database(url, &name)
}

async fn connect(url: &str) -> PgConnection {
    match PgConnection::connect(url).await {
        Ok(connection) => connection,
        Err(error) => panic!("can't connect to `{url}`: {error}"),
    }
}

/// Our own server is thrown away with all its databases; a named one stays.
async fn drop_stale_databases(url: &str) {
    let mut server = connect(url).await;
    let names: Vec<String> =
        sqlx::query_scalar(r"SELECT datname::text FROM pg_database WHERE datname LIKE 'durable\_test\_%'")
            .fetch_all(&mut server)
            .await
            .expect("`pg_database` can be read");
    for name in names {
        let born = name.split('_').nth(2).and_then(|born| born.parse().ok()).map(Duration::from_secs);
        let age = born.and_then(|born| SystemTime::now().duration_since(UNIX_EPOCH + born).ok());
        if age.is_some_and(|age| age > STALE) {
            // Another process may drop it at the same moment, or still use it: it is only tidying up.
            drop(sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).execute(&mut server).await);
        }
    }
}

/// The same URL with another database.
#[must_use]
pub fn with_database(url: &str, database: &str) -> String {
    let (address, parameters) = url.split_once('?').map_or((url, None), |(address, rest)| (address, Some(rest)));
    let authority = address.find("://").map_or(0, |scheme| scheme + 3);
    let end = address[authority..].find('/').map_or(address.len(), |slash| authority + slash);
    let parameters = parameters.map(|parameters| format!("?{parameters}")).unwrap_or_default();
    format!("{}/{database}{parameters}", &address[..end])
}

/// Runs what takes long off the runtime's threads; a panic goes on in the caller.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => panic!("the runtime is gone: {error}"),
        },
    }
}

#[cfg(test)]
mod tests;

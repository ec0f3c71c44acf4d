//! An empty database for each contestant, work and round.

use std::process;

use anyhow::{Result, ensure};
use durable_peers_contest::Store;
use durable_tests::postgres::{Cluster, with_database};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

/// Where the databases are.
pub(crate) struct Server {
    url: String,
    made: std::cell::Cell<u32>,
    _own: Option<Cluster>,
}

/// A database that nobody else uses.
pub(crate) struct Database {
    pub(crate) url: String,
    held: Held,
}

enum Held {
    Postgres { name: String },
    Sqlite { _folder: TempDir },
}

impl Server {
    /// The given one, or one of its own; durable either way.
    pub(crate) async fn start(url: Option<&str>) -> Result<Self> {
        let (url, own) = match url {
            Some(url) => (url.to_owned(), None),
            None => {
                let cluster = Cluster::start().await;
                (cluster.url("postgres"), Some(cluster))
            }
        };
        let server = Self { url, made: 0.into(), _own: own };
        let mut connection = PgConnection::connect(&server.url).await?;
        for setting in ["fsync", "synchronous_commit"] {
            let value: String =
                sqlx::query_scalar("SELECT current_setting($1)").bind(setting).fetch_one(&mut connection).await?;
            ensure!(value == "on", "the server has `{setting} = {value}`: the comparison is about durable commits");
        }
        connection.close().await?;
        Ok(server)
    }

    pub(crate) async fn fresh(&self, store: Store) -> Result<Database> {
        match store {
            Store::Postgres => {
                self.made.set(self.made.get() + 1);
                let name = format!("durable_peers_{}_{}", process::id(), self.made.get());
                self.execute(format!("CREATE DATABASE {name} TEMPLATE template0")).await?;
                Ok(Database { url: with_database(&self.url, &name), held: Held::Postgres { name } })
            }
            Store::Sqlite => {
                let folder = tempfile::Builder::new().prefix("durable-peers-").tempdir()?;
                let url = format!("sqlite://{}", folder.path().join("peers.db").display());
                Ok(Database { url, held: Held::Sqlite { _folder: folder } })
            }
        }
    }

    pub(crate) async fn drop(&self, database: Database) -> Result<()> {
        match database.held {
            Held::Postgres { name } => self.execute(format!("DROP DATABASE {name} WITH (FORCE)")).await,
            Held::Sqlite { .. } => Ok(()),
        }
    }

    async fn execute(&self, statement: String) -> Result<()> {
        let mut connection = PgConnection::connect(&self.url).await?;
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        Ok(connection.close().await?)
    }
}

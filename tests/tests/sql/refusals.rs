//! What a database that can't be used says, and when: a typed error with what to do, in reasonable time.

use std::time::{Duration, Instant};

use durable::{Builder, Error, ErrorKind};
use durable_tests::postgres;
use durable_tests::postgres::Cluster;
use sqlx::Connection;

use crate::support::{connect, execute};

/// Long enough for a slow machine, short of any wait for an operator.
const REASONABLE: Duration = Duration::from_secs(30);

async fn refused(url: &str) -> Error {
    let begun = Instant::now();
    let error = Builder::new().url(url).build().await.map(drop).unwrap_err();
    assert!(begun.elapsed() < REASONABLE, "{:?}: {error}", begun.elapsed());
    error
}

/// Message and sources.
fn words(error: &Error) -> String {
    let chain = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn a_url_of_another_kind_is_refused_by_name() {
    for (url, word) in [
        ("mysql://root@localhost/jobs", "Postgres (postgres://…) or SQLite"),
        ("mariadb://root@localhost/jobs", "Postgres (postgres://…) or SQLite"),
        ("", "postgres://user@host/database or sqlite://file.db"),
        ("   ", "postgres://user@host/database or sqlite://file.db"),
        ("jobs.db", "postgres://user@host/database or sqlite://file.db"),
        ("http://localhost/", "postgres://user@host/database or sqlite://file.db"),
    ] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Configuration, "`{url}`: {error}");
        assert!(words(&error).contains(word), "`{url}`: {}", words(&error));
    }
    assert!(refused("mysql://root@localhost/jobs").await.to_string().contains("`mysql://`"));
}

#[tokio::test]
async fn a_url_that_cannot_be_read_is_a_configuration_error_and_shows_no_password() {
    for url in ["postgres://u:secret@localhost:notaport/db", "postgres://u:secret@[::1/db"] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Configuration, "`{url}`: {error}");
        assert!(!words(&error).contains("secret"), "{}", words(&error));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    // A port that nobody listens at, a name that does not exist, an address that swallows everything.
    for url in ["postgres://u@127.0.0.1:1/db", "postgres://u@host.invalid/db", "postgres://u@203.0.113.1/db"] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "`{url}`: {error}");
        assert!(words(&error).contains("database"), "{}", words(&error));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_database_a_wrong_user_and_a_wrong_password_are_configuration_errors() {
    let cluster = Cluster::start().await;
    let error = refused(&cluster.url("no_such_database")).await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(words(&error).contains("no_such_database"), "{}", words(&error));

    let url = cluster.fresh_database().await;
    let error = refused(&url.replacen("postgres@", "no_such_role@", 1)).await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(words(&error).contains("no_such_role"), "{}", words(&error));

    let mut connection = connect(&url).await;
    execute(&mut connection, "CREATE ROLE keyed LOGIN PASSWORD 'right'").await;
    let rules = cluster.folder().join("data/pg_hba.conf");
    let text = std::fs::read_to_string(&rules).unwrap();
    std::fs::write(&rules, format!("host all keyed all scram-sha-256\n{text}")).unwrap();
    execute(&mut connection, "SELECT pg_reload_conf()").await;
    connection.close().await.unwrap();
    crate::support::eventually(REASONABLE, "passwords are asked for", async || {
        sqlx::PgConnection::connect(&url.replacen("postgres@", "keyed:wrong@", 1)).await.is_err()
    })
    .await;
    let error = refused(&url.replacen("postgres@", "keyed:wrong@", 1)).await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(words(&error).contains("password") && !words(&error).contains("wrong@"), "{}", words(&error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_another_encoding_is_refused() {
    let server = postgres::server_url().await;
    let mut connection = connect(&server).await;
    let name = format!("latin_{}", std::process::id());
    let create = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'");
    execute(&mut connection, &create).await;
    let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
    let error = refused(&url).await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("LATIN1") && error.to_string().contains("UTF8"), "{error}");
    execute(&mut connection, &format!("DROP DATABASE {name}")).await;
}

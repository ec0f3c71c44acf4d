//! Migrations: races at boot, interrupted starts, versions, and neighbours in the same database.

mod earlier;
mod interrupted;
mod neighbours;

use std::time::Duration;

use durable::{Builder, ErrorKind};
use durable_tests::{Database, Store, on_both_stores, postgres, sqlite};
use sqlx::{Connection, PgConnection, Row, SqliteConnection};

use crate::support::{connect, endless, eventually, execute, quick, runtime, sum_of};

/// Texts of released migrations never change: databases that have them would differ from new ones.
const RELEASED: [(&str, i32, &str, &str); 6] = [
    ("postgres", 1, "init", "ef75ae27dd756d71"),
    ("postgres", 2, "steps_in_order", "4fa894872d78fc80"),
    ("postgres", 3, "queues", "745ba54fd95e6596"),
    ("sqlite", 1, "init", "37ca0a350a9c3b3d"),
    ("sqlite", 2, "steps_in_order", "5ad2202121524de0"),
    ("sqlite", 3, "queues", "4a54e17909318b5d"),
];

/// Everything that the schema is made of, in words.
pub(super) async fn shape(connection: &mut PgConnection, schema: &str) -> Vec<String> {
    let sql = "
        SELECT format('%s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcompression)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = $1::regnamespace AND a.attnum > 0 AND c.relkind IN ('r', 'v')
        UNION ALL SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = $1::regnamespace
        UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = $1::regnamespace
        ORDER BY 1";
    let rows: Vec<String> = sqlx::query_scalar(sql).bind(schema).fetch_all(connection).await.unwrap();
    assert!(rows.len() > 60, "{rows:#?}");
    rows.iter().map(|row| row.replace(&format!("{schema}."), "")).collect()
}

async fn sqlite_shape(url: &str) -> Vec<String> {
    let mut connection = SqliteConnection::connect(url).await.unwrap();
    let sql = "SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY 1";
    sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap()
}

async fn shape_of(store: Store, url: &str) -> Vec<String> {
    match store {
        Store::Sqlite => sqlite_shape(url).await,
        Store::Postgres => shape(&mut connect(url).await, "durable").await,
    }
}

on_both_stores! {
    async fn twenty_four_starts_that_race_make_the_schema_once(database: Database) {
        let once = database.store().fresh_database().await;
        runtime(once.url()).await.shutdown().await;
        let expected = shape_of(once.store(), once.url()).await;
        for _ in 0..3 {
            let fresh = database.store().fresh_database().await;
            let starts: Vec<_> = (0..24).map(|_| tokio::spawn(Builder::new().url(fresh.url()).pool_size(1).build())).collect();
            let mut runtimes = Vec::new();
            for start in starts {
                runtimes.push(start.await.unwrap().unwrap());
            }
            assert_eq!(shape_of(fresh.store(), fresh.url()).await, expected);
            for runtime in runtimes {
                runtime.shutdown().await;
            }
        }
    }

    async fn a_newer_schema_is_refused_with_what_to_do(database: Database) {
        runtime(database.url()).await.shutdown().await;
        set_version(&database, 1_000).await;
        let error = Builder::new().url(database.url()).build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        assert!(error.to_string().contains("schema 1000") && error.to_string().contains("update this build"), "{error}");
    }

    async fn an_older_schema_is_refused_with_migrations_off(database: Database) {
        let error = Builder::new().url(database.url()).migrate(false).build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        assert!(error.to_string().contains("start once with migrations on"), "{error}");
        runtime(database.url()).await.shutdown().await;
        Builder::new().url(database.url()).migrate(false).build().await.unwrap().shutdown().await;
    }

    async fn a_released_migration_keeps_its_text(database: Database) {
        runtime(database.url()).await.shutdown().await;
        let sql = "SELECT version, name, checksum FROM migrations ORDER BY version";
        let found: Vec<(i32, String, String)> = match database.store() {
            Store::Sqlite => {
                let mut connection = SqliteConnection::connect(database.url()).await.unwrap();
                sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap()
            }
            Store::Postgres => {
                let mut connection = connect(database.url()).await;
                execute(&mut connection, "SET search_path = durable").await;
                sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap()
            }
        };
        let expected: Vec<_> = RELEASED
            .iter()
            .filter(|released| released.0 == database.store().to_string())
            .map(|(_, version, name, checksum)| (*version, (*name).to_owned(), (*checksum).to_owned()))
            .collect();
        assert_eq!(found, expected);
    }
}

async fn set_version(database: &Database, version: i32) {
    let sql = "INSERT INTO migrations SELECT $1, name, checksum, applied_at FROM migrations LIMIT 1";
    match database.store() {
        Store::Sqlite => {
            let mut connection = SqliteConnection::connect(database.url()).await.unwrap();
            sqlx::query(sql).bind(version).execute(&mut connection).await.unwrap();
        }
        Store::Postgres => {
            let mut connection = connect(database.url()).await;
            execute(&mut connection, "SET search_path = durable").await;
            sqlx::query(sql).bind(version).execute(&mut connection).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_dropped_under_a_running_program_is_an_error_that_says_so() {
    let url = postgres::fresh_database().await;
    let running = runtime(&url).await;
    let (run, mut connection) = (running.enter(async { endless::start(20).await.unwrap() }).await, connect(&url).await);
    execute(&mut connection, "DROP SCHEMA durable CASCADE").await;

    let bound = Duration::from_secs(90);
    let started = tokio::time::timeout(bound, running.enter(async { sum_of::start(1, 1).await })).await.unwrap();
    let error = started.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
    assert!(error.to_string().contains("missing") && error.to_string().contains("migrations"), "{error}");
    let error = tokio::time::timeout(bound, run.status()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema, "{error}");

    // The program lives: with the tables there again it works.
    let other = runtime(&url).await;
    eventually(bound, "the program works again", async || {
        let result = running.enter(async { sum_of::start(1, 3).await }).await;
        match result {
            Ok(run) => run.result().await.is_ok_and(|sum| sum == 6),
            Err(_) => false,
        }
    })
    .await;
    // What ran is gone with its row, and whoever waits is told.
    let error = tokio::time::timeout(bound, run.result()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    other.shutdown().await;
    running.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_installation_in_another_schema_works_from_end_to_end() {
    let url = postgres::fresh_database().await;
    let mut connection = connect(&url).await;
    let named = quick(&url).schema("app_jobs").build().await.unwrap();
    let sums = named.enter(async {
        let mut runs = Vec::new();
        for first in 0..100 {
            runs.push(sum_of::start(first, 3).await.unwrap());
        }
        let mut sums = 0;
        for run in runs {
            sums += run.result().await.unwrap();
        }
        sums
    });
    assert_eq!(sums.await, (0..100).map(|first| 3 * first + 3).sum::<u64>());

    // A step whose key is taken is adopted: by the tolerant twin of the statement and the second look.
    let taken = "INSERT INTO app_jobs.workflow_steps
                 SELECT 'taken', branch, step_index, seq, kind, step_name, status, codec, error_encoding, '40', output_bytes,
                        error_message, args_hash, call_site, definition_site, attempts, epoch, 7, started_at, completed_at
                 FROM app_jobs.workflow_steps WHERE step_index = 0 LIMIT 1";
    execute(&mut connection, taken).await;
    let adopted = named.enter(async { sum_of::start(1, 3).id("taken").await.unwrap().result().await.unwrap() }).await;
    assert_eq!(adopted, 40 + 2 + 3);

    let cancelled = named.enter(async {
        let run = endless::start(5).await.unwrap();
        run.cancel().await.unwrap();
        let error = run.result().await.unwrap_err();
        run.resume().await.unwrap();
        run.cancel().await.unwrap();
        error.kind()
    });
    assert_eq!(cancelled.await, ErrorKind::Cancelled);
    named.shutdown().await;
    let durable = "SELECT to_regnamespace('durable') IS NULL";
    assert!(sqlx::query(durable).fetch_one(&mut connection).await.unwrap().get::<bool, _>(0));
    assert_eq!(shape(&mut connection, "app_jobs").await.len(), {
        runtime(&url).await.shutdown().await;
        shape(&mut connection, "durable").await.len()
    });
}

#[tokio::test]
async fn a_schema_name_that_is_no_plain_identifier_is_refused() {
    let file = sqlite::fresh_database();
    drop(file);
    let url = postgres::fresh_database().await;
    for name in ["", "Durable", "a-b", "1a", "a b", "pg_jobs", "a\"; DROP TABLE x; --", &"x".repeat(41)] {
        let error = Builder::new().url(&url).schema(name).build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    }
}

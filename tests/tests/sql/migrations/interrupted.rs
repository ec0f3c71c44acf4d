//! Starts that end half-way: killed connections and dropped futures.

use std::time::Duration;

use durable::Builder;
use durable_tests::postgres;
use sqlx::PgConnection;
use sqlx::postgres::PgPoolOptions;

use super::shape;
use crate::support::{connect, count, eventually, execute, quick, runtime};

/// Ends the session after the n-th statement that changes the schema. A sequence counts on when a transaction is undone.
const KILLER: &str = "
    CREATE SCHEMA killer; CREATE SEQUENCE killer.seen; CREATE TABLE killer.at (n int8 NOT NULL);
    CREATE FUNCTION killer.kill() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('killer.seen') = (SELECT n FROM killer.at) THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
    END $$;
    CREATE EVENT TRIGGER killer ON ddl_command_end EXECUTE FUNCTION killer.kill();";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_killed_after_any_statement_of_a_migration_leaves_nothing() {
    let single = postgres::fresh_database().await;
    runtime(&single).await.shutdown().await;
    let expected = shape(&mut connect(&single).await, "durable").await;

    let url = postgres::fresh_database().await;
    let mut connection = connect(&url).await;
    execute(&mut connection, KILLER).await;
    let mut killed = 0;
    for at in 1_i64.. {
        execute(&mut connection, "SET client_min_messages = error; ALTER EVENT TRIGGER killer DISABLE").await;
        execute(&mut connection, "DROP SCHEMA IF EXISTS durable CASCADE").await;
        execute(&mut connection, "ALTER EVENT TRIGGER killer ENABLE; TRUNCATE killer.at").await;
        let set = format!("INSERT INTO killer.at VALUES ({at}); SELECT setval('killer.seen', 1, false)");
        execute(&mut connection, &set).await;
        let Err(error) = Builder::new().url(&url).build().await.map(drop) else { break };
        assert_eq!(error.kind(), durable::ErrorKind::Unavailable, "{error}");
        assert_eq!(count(&mut connection, "SELECT count(*) FROM pg_namespace WHERE nspname = 'durable'").await, 0);
        runtime(&url).await.shutdown().await;
        assert_eq!(shape(&mut connection, "durable").await, expected, "after statement {at}");
        killed += 1;
    }
    assert!(killed > 10, "{killed}");
}

/// What an interrupted start still has under way may deadlock with this: then once more.
async fn drop_schema(connection: &mut PgConnection) {
    let sql = "SET client_min_messages = error; DROP SCHEMA IF EXISTS durable CASCADE";
    for _ in 0..20 {
        match sqlx::raw_sql(sql).execute(&mut *connection).await {
            Ok(_) => return,
            Err(error) => {
                let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
                assert_eq!(code, "40P01", "{error}");
            }
        }
    }
    panic!("the schema can't be dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_killed_at_random_moments_of_a_start_leave_nothing() {
    let url = postgres::fresh_database().await;
    let mut connection = connect(&url).await;
    let mut failed = 0;
    for round in 0..50_u64 {
        drop_schema(&mut connection).await;
        let start = tokio::spawn(Builder::new().url(&url).build());
        tokio::time::sleep(Duration::from_millis(round * 7 % 50)).await;
        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
        count(&mut connection, kill).await;
        failed += usize::from(start.await.unwrap().is_err());
        let again =
            tokio::time::timeout(Duration::from_secs(15), runtime(&url)).await.expect("the next start is quick");
        again.shutdown().await;
    }
    assert!(failed > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_dropped_at_any_moment_leaves_no_lock_and_no_transaction() {
    let url = postgres::fresh_database().await;
    let mut connection = connect(&url).await;
    let pool = PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    let mut dropped = 0;
    for round in 0..60_u64 {
        if round % 3 == 0 {
            drop_schema(&mut connection).await;
        }
        let builder = if round % 2 == 0 { quick(&url) } else { quick(&url).pool(pool.clone()) };
        let start = tokio::time::timeout(Duration::from_micros(round * 700), builder.build()).await;
        dropped += usize::from(start.is_err());
        let again = if round % 2 == 0 { quick(&url).pool(pool.clone()) } else { quick(&url) };
        // A dropped start may be in the middle of the same migration.
        let again =
            tokio::time::timeout(Duration::from_secs(15), again.build()).await.expect("the next start is quick");
        again.unwrap().shutdown().await;
    }
    assert!(dropped > 5, "{dropped}");
    eventually(Duration::from_secs(15), "no lock is left", async || {
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        count(&mut connection, locks).await == 0
    })
    .await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    assert_eq!(count(&mut connection, open).await, 0);
}

//! Connections: small pools, dropped futures, a server that has no more of them or is read-only for a while.

use std::time::Duration;

use durable::ErrorKind;
use durable_tests::postgres::{Cluster, Settings};
use durable_tests::{Database, postgres};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::support::{connect, count, endless, eventually, execute, quick, sum_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_dropped_at_any_moment_leave_no_transaction_in_a_pool_of_one() {
    let url = postgres::fresh_database().await;
    let pool = PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    let runtime = quick(&url).pool(pool.clone()).build().await.unwrap();
    let run = runtime.enter(async { endless::start(10).id("busy").await.unwrap() }).await;
    let mut dropped = 0;
    for round in 0..200_u64 {
        let patience = Duration::from_micros(round * 37 % 5_000);
        let given_up = match round % 5 {
            0 => tokio::time::timeout(patience, run.status()).await.is_err(),
            1 => {
                let start = runtime.enter(async move { sum_of::start(round, 2).id(format!("r{round}")).await });
                tokio::time::timeout(patience, start).await.is_err()
            }
            2 => tokio::time::timeout(patience, run.cancel()).await.is_err(),
            3 => tokio::time::timeout(patience, run.resume()).await.is_err(),
            _ => tokio::time::timeout(patience, runtime.recover()).await.is_err(),
        };
        dropped += usize::from(given_up);
        // A connection of the pool is as good as new.
        let mut connection = pool.acquire().await.unwrap();
        let now = "SELECT extract(epoch FROM (clock_timestamp() - now())) < 1 AND txid_current_if_assigned() IS NULL";
        let fresh: bool = sqlx::query_scalar(now).fetch_one(&mut *connection).await.unwrap();
        assert!(fresh, "round {round}");
    }
    assert!(dropped > 20, "{dropped}");
    // What was begun went on to its end, although nobody waited.
    eventually(Duration::from_secs(30), "every start ended", async || {
        let sql = "SELECT count(*) FROM durable.workflows WHERE workflow_id <> 'busy' AND status <> 'done'";
        let open: i64 = sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap();
        open == 0
    })
    .await;
    let mut other = connect(&url).await;
    eventually(Duration::from_secs(10), "no transaction is open", async || {
        let open = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
        count(&mut other, open).await == 0
    })
    .await;
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_dropped_behind_a_pooler_leave_no_transaction_open() {
    let database = Database::behind_pooler().await;
    let runtime = quick(database.url()).pool_size(2).build().await.unwrap();
    let run = runtime.enter(async { endless::start(10).id("busy").await.unwrap() }).await;
    let mut dropped = 0;
    for round in 0..200_u64 {
        let patience = Duration::from_micros(round * 37 % 8_000);
        let given_up = match round % 3 {
            0 => tokio::time::timeout(patience, run.status()).await.is_err(),
            1 => tokio::time::timeout(patience, run.cancel()).await.is_err(),
            _ => tokio::time::timeout(patience, run.resume()).await.is_err(),
        };
        dropped += usize::from(given_up);
    }
    assert!(dropped > 20, "{dropped}");
    // The pooler's two sessions are free, and so is the pool.
    let mut other = connect(database.direct_url()).await;
    eventually(Duration::from_secs(10), "no transaction is open", async || {
        let open = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND state LIKE 'idle in transaction%'
                      AND state_change < clock_timestamp() - interval '1 second'";
        count(&mut other, open).await == 0 && run.status().await.is_ok()
    })
    .await;
    runtime.shutdown().await;
}

/// Runs something, and says whether the executor had a session for its lock.
async fn has_session(url: &str, direct: &str) -> bool {
    let runtime = quick(url).build().await.unwrap();
    runtime.enter(async { sum_of::start(3, 2).await.unwrap().result().await.unwrap() }).await;
    let sql = "SELECT count(*) FROM durable.executors WHERE status = 'alive' AND has_session";
    let count = count(&mut connect(direct).await, sql).await;
    runtime.shutdown().await;
    count == 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_the_programs_own_works_behind_a_pooler() {
    let database = Database::behind_pooler().await;
    let options: PgConnectOptions = database.url().parse().unwrap();
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options.extra_float_digits(None)).await.unwrap();
    let runtime = quick("").pool(pool).build().await.unwrap();
    let runs =
        (0..40).map(|n| runtime.enter(async move { sum_of::start(n, 2).await.unwrap().result().await.unwrap() }));
    futures_util::future::join_all(runs).await;
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_is_noticed_whether_it_refuses_settings_or_drops_them() {
    for settings in [Settings::Refused, Settings::Dropped] {
        let direct = postgres::fresh_database().await;
        let pooled = postgres::pooled(&direct, settings).await;
        assert!(!has_session(&pooled, &direct).await, "{settings:?}");
        assert!(has_session(&direct, &direct).await, "{settings:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_workflows_share_a_pool_of_two() {
    let url = postgres::fresh_database().await;
    let pool =
        PgPoolOptions::new().max_connections(2).acquire_timeout(Duration::from_secs(20)).connect(&url).await.unwrap();
    let runtime = quick(&url).pool(pool).build().await.unwrap();
    let sums = runtime.enter(async {
        let runs = (0..500).map(|first| {
            tokio::spawn(runtime.enter(async move {
                let run = sum_of::start(first, 2).await.unwrap();
                run.status().await.unwrap();
                run.result().await.unwrap()
            }))
        });
        let runs: Vec<_> = runs.collect();
        let mut sums = 0;
        for run in runs {
            sums += run.await.unwrap();
        }
        sums
    });
    assert_eq!(sums.await, (0..500).map(|first| 2 * first + 1).sum::<u64>());
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_advisory_lock_is_that_of_the_living_executor() {
    let url = postgres::fresh_database().await;
    let mut connection = connect(&url).await;
    let runtime = quick(&url).heartbeat(Duration::from_millis(20)).build().await.unwrap();
    let rows = "INSERT INTO durable.workflows (workflow_id, name, version, status, seed, write_id)
                SELECT 'claimed-' || i, 'sum_of', 1, 'pending', 0, 0 FROM generate_series(1, 2000) i";
    let inputs = "INSERT INTO durable.workflow_payloads (workflow_id, part, codec, payload)
                  SELECT workflow_id, 'input', (SELECT codec FROM durable.workflow_payloads LIMIT 1), '{\"first\":1,\"steps\":1}'
                  FROM durable.workflows WHERE workflow_id LIKE 'claimed-%'";
    runtime.enter(async { sum_of::start(1, 1).await.unwrap().result().await.unwrap() }).await;
    execute(&mut connection, &format!("BEGIN; {rows}; {inputs}; COMMIT")).await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    eventually(Duration::from_secs(60), "all are claimed and done", async || {
        assert_eq!(count(&mut connection, locks).await, 1);
        count(&mut connection, "SELECT count(*) FROM durable.workflows WHERE status <> 'done'").await == 0
    })
    .await;
    runtime.shutdown().await;
    eventually(Duration::from_secs(10), "the lock is given back", async || count(&mut connection, locks).await == 0)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_read_only_for_a_while_stops_nothing_for_good() {
    let cluster = Cluster::start().await;
    let url = cluster.fresh_database().await;
    let mut connection = connect(&url).await;
    let runtime = quick(&url).build().await.unwrap();
    let run = runtime.enter(async { endless::start(5).id("busy").await.unwrap() }).await;
    let steps = "SELECT count(*) FROM durable.workflow_steps WHERE workflow_id = 'busy'";
    eventually(Duration::from_secs(30), "it runs", async || count(&mut connection, steps).await > 3).await;

    let settings = "ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()";
    for sql in settings.split(';') {
        execute(&mut connection, sql).await;
    }
    execute(&mut connection, "SET default_transaction_read_only = off").await;
    let before = std::cell::Cell::new(-1);
    eventually(Duration::from_secs(30), "nothing is recorded any more", async || {
        let now = count(&mut connection, steps).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        before.replace(now) == now
    })
    .await;
    let error = runtime.enter(async { sum_of::start(1, 1).await.map(drop) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");

    for sql in ["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"] {
        execute(&mut connection, sql).await;
    }
    let stood = before.get();
    eventually(Duration::from_secs(90), "it goes on", async || count(&mut connection, steps).await > stood + 3).await;
    let sum = runtime.enter(async { sum_of::start(1, 2).await.unwrap().result().await.unwrap() }).await;
    assert_eq!(sum, 3);
    run.cancel().await.unwrap();
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_processes_than_the_server_has_connections_for_all_come_up() {
    let cluster = Cluster::start().await;
    let url = cluster.fresh_database().await;
    let mut connection = connect(&url).await;
    quick(&url).build().await.unwrap().shutdown().await;
    // Ten runtimes of up to four connections, while others hold most of the forty that the role may have.
    let role = "CREATE ROLE crowded LOGIN; GRANT ALL ON SCHEMA durable TO crowded;
                GRANT ALL ON ALL TABLES IN SCHEMA durable TO crowded; GRANT ALL ON ALL SEQUENCES IN SCHEMA durable TO crowded;
                ALTER ROLE crowded CONNECTION LIMIT 40";
    execute(&mut connection, role).await;
    let crowded = url.replacen("postgres@", "crowded@", 1);
    let mut crowd = Vec::new();
    for _ in 0..38 {
        crowd.push(connect(&crowded).await);
    }
    let starts: Vec<_> = (0..10).map(|_| tokio::spawn(quick(&crowded).pool_size(1).migrate(false).build())).collect();
    // They are refused until the crowd is gone.
    eventually(Duration::from_secs(20), "connections are refused", async || {
        cluster.log().matches("too many connections for role").count() > 5
    })
    .await;
    drop(crowd);
    let mut runtimes = Vec::new();
    for start in starts {
        runtimes.push(start.await.unwrap().unwrap());
    }
    for (n, runtime) in (0..).zip(&runtimes) {
        let sum = runtime.enter(async move { sum_of::start(n, 1).await.unwrap().result().await.unwrap() }).await;
        assert_eq!(sum, n);
    }
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'crowded'";
    assert!(count(&mut connection, connections).await <= 40);
    for runtime in runtimes {
        runtime.shutdown().await;
    }
}

/// Where the server is set to answer before its disk does, the library's own connections are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_is_durable_whatever_the_server_is_set_to() {
    let url = postgres::fresh_database().await;
    let mut connection = connect(&url).await;
    quick(&url).build().await.unwrap().shutdown().await;
    let name = url.rsplit('/').next().unwrap();
    let watch = format!(
        "ALTER DATABASE {name} SET synchronous_commit = off;
         CREATE TABLE public.seen (what text, setting text);
         CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO public.seen VALUES (TG_TABLE_NAME || ' ' || TG_OP, current_setting('synchronous_commit')); RETURN NULL; END $$;"
    );
    execute(&mut connection, &watch).await;
    for table in ["workflows", "workflow_steps", "workflow_payloads", "executors", "writers"] {
        let sql = format!(
            "CREATE TRIGGER seen AFTER INSERT OR UPDATE OR DELETE ON durable.{table} FOR EACH STATEMENT EXECUTE FUNCTION public.see()"
        );
        execute(&mut connection, &sql).await;
    }
    let runtime = quick(&url).build().await.unwrap();
    let run = runtime.enter(async { endless::start(1).await.unwrap() }).await;
    runtime.enter(async { sum_of::start(1, 3).await.unwrap().result().await.unwrap() }).await;
    run.cancel().await.unwrap();
    run.resume().await.unwrap();
    run.cancel().await.unwrap();
    runtime.shutdown().await;
    assert!(count(&mut connection, "SELECT count(*) FROM public.seen").await > 20);
    let asynchronous = "SELECT count(*) FROM public.seen WHERE setting <> 'on'";
    assert_eq!(count(&mut connection, asynchronous).await, 0);
}

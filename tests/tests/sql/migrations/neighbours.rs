//! An application's own database: few rights, its own migrations, several installations.

use std::path::Path;
use std::time::Duration;

use durable_tests::{Database, Store, on_both_stores, postgres};
use sqlx::migrate::Migrator;
use sqlx::{PgPool, SqlitePool};

use crate::support::{connect, count, endless, execute, quick, runtime, sum_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_with_one_ready_made_schema_is_enough() {
    let url = postgres::fresh_database().await;
    let mut connection = connect(&url).await;
    let role = format!("tenant_{}", std::process::id());
    let rights = format!(
        "CREATE ROLE {role} LOGIN; REVOKE ALL ON SCHEMA public FROM PUBLIC; CREATE SCHEMA durable;
         GRANT USAGE, CREATE ON SCHEMA durable TO {role}; REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC",
        url.rsplit('/').next().unwrap()
    );
    execute(&mut connection, &rights).await;
    let as_role = url.replacen("postgres@", &format!("{role}@"), 1);
    assert_ne!(as_role, url);

    let tenant = runtime(&as_role).await;
    let run = tenant.enter(async { sum_of::start(1, 5).await.unwrap() }).await;
    assert_eq!(run.result().await.unwrap(), 15);
    let endless = tenant.enter(async { endless::start(1).await.unwrap() }).await;
    endless.cancel().await.unwrap();
    endless.resume().await.unwrap();
    endless.cancel().await.unwrap();
    tenant.shutdown().await;
    // What there is already is found by a second start, which may clean up after the first.
    let again = runtime(&as_role).await;
    again.recover().await.unwrap();
    again.shutdown().await;

    let outside = format!(
        "SELECT count(*) FROM pg_class WHERE relowner = '{role}'::regrole
         AND relnamespace NOT IN ('durable'::regnamespace, 'pg_toast'::regnamespace)"
    );
    assert_eq!(count(&mut connection, &outside).await, 0);
    let drop = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    execute(&mut connection, &drop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_the_right_to_make_a_schema_is_told_so() {
    let url = postgres::fresh_database().await;
    let mut connection = connect(&url).await;
    let role = format!("nobody_{}", std::process::id());
    execute(&mut connection, &format!("CREATE ROLE {role} LOGIN")).await;
    let as_role = url.replacen("postgres@", &format!("{role}@"), 1);
    let error = quick(&as_role).build().await.unwrap_err();
    assert_eq!(error.kind(), durable::ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("right"), "{error}");

    // Tables that it may not use are as good as none.
    runtime(&url).await.shutdown().await;
    let error = quick(&as_role).build().await.unwrap_err();
    assert_eq!(error.kind(), durable::ErrorKind::PermissionDenied, "{error}");
    execute(&mut connection, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// A host's own migrations, with tables named like ours.
fn host_migrations() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, sql: &str| std::fs::write(folder.path().join(name), sql).unwrap();
    write("1_orders.sql", "CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    write("2_items.sql", "CREATE TABLE items (id INTEGER PRIMARY KEY)");
    folder
}

async fn migrate_host(database: &Database, folder: &Path, schema: Option<&str>) -> i64 {
    let migrator = Migrator::new(folder).await.unwrap();
    let sql = "SELECT count(*) FROM _sqlx_migrations WHERE success";
    match database.store() {
        Store::Sqlite => {
            let pool = SqlitePool::connect(&format!("{}?mode=rwc", database.url())).await.unwrap();
            migrator.run(&pool).await.unwrap();
            let count = sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap();
            pool.close().await;
            count
        }
        Store::Postgres => {
            let options: sqlx::postgres::PgConnectOptions = database.url().parse().unwrap();
            let options = options.options([("search_path", schema.unwrap_or("public"))]);
            let pool = PgPool::connect_with(options).await.unwrap();
            migrator.run(&pool).await.unwrap();
            let count = sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap();
            pool.close().await;
            count
        }
    }
}

async fn work(database: &Database) {
    let runtime = runtime(database.url()).await;
    let sum = runtime.enter(async { sum_of::start(1, 2).await.unwrap().result().await.unwrap() }).await;
    assert_eq!(sum, 3);
    runtime.shutdown().await;
}

on_both_stores! {
    async fn a_host_that_migrates_first_is_undisturbed(database: Database) {
        let folder = host_migrations();
        for _boot in 0..2 {
            assert_eq!(migrate_host(&database, folder.path(), None).await, 2);
            work(&database).await;
        }
    }

    async fn a_host_that_migrates_second_is_undisturbed(database: Database) {
        let folder = host_migrations();
        for _boot in 0..2 {
            work(&database).await;
            assert_eq!(migrate_host(&database, folder.path(), None).await, 2);
        }
    }

    async fn a_host_in_the_same_schema_is_undisturbed(database: Database) {
        let folder = host_migrations();
        for _boot in 0..2 {
            work(&database).await;
            assert_eq!(migrate_host(&database, folder.path(), Some("durable")).await, 2);
            work(&database).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_with_tables_of_our_names_is_undisturbed() {
    let url = postgres::fresh_database().await;
    let mut connection = connect(&url).await;
    for table in ["migrations", "workflows", "executors", "writers", "workflow_steps"] {
        execute(&mut connection, &format!("CREATE TABLE public.{table} (version int, theirs text)")).await;
    }
    execute(&mut connection, "INSERT INTO public.migrations VALUES (99, 'theirs')").await;
    let ours = runtime(&url).await;
    let sum = ours.enter(async { sum_of::start(1, 2).await.unwrap().result().await.unwrap() }).await;
    assert_eq!(sum, 3);
    ours.shutdown().await;
    assert_eq!(count(&mut connection, "SELECT version::int8 FROM public.migrations").await, 99);
    assert_eq!(count(&mut connection, "SELECT count(*) FROM public.workflows").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_installations_in_one_database_do_not_see_each_other() {
    let url = postgres::fresh_database().await;
    let build = |schema: &str| quick(&url).schema(schema).build();
    let other = build("installation_b").await.unwrap();
    // Both have the number 1 in their own schema: the second holds the lock of that number while the first is dead.
    let first = build("installation_a").await.unwrap();
    let run = first.enter(async { endless::start(20).id("same").await.unwrap() }).await;
    let theirs = other.enter(async { sum_of::start(1, 3).id("same").await.unwrap() }).await;
    assert_eq!(theirs.result().await.unwrap(), 6);
    drop((run, first));

    let heir = build("installation_a").await.unwrap();
    let report = tokio::time::timeout(Duration::from_secs(12), async {
        loop {
            let report = heir.recover().await.unwrap();
            if report.workflows > 0 {
                break report;
            }
        }
    });
    assert_eq!(report.await.expect("a takeover within the grace, not the lease").ids, ["same"]);
    assert_eq!(other.recover().await.unwrap().workflows, 0);
    heir.shutdown().await;
    other.shutdown().await;
}

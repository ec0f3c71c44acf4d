use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::*;

async fn setting(connection: &mut PgConnection, name: &str) -> String {
    sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn databases_are_separate_and_durable() {
    let (one, other) = tokio::join!(fresh_database(), fresh_database());
    assert_ne!(one, other);
    let mut one = connect(&one).await;
    sqlx::raw_sql("CREATE TABLE t (id int)").execute(&mut one).await.unwrap();
    let mut other = connect(&other).await;
    let there: bool = sqlx::query_scalar("SELECT to_regclass('t') IS NOT NULL").fetch_one(&mut other).await.unwrap();
    assert!(!there);
    for name in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(setting(&mut one, name).await, "on", "{name}");
    }
}

#[tokio::test]
async fn all_threads_share_one_server() {
    if std::env::var(SERVER).is_ok() {
        return;
    }
    let url = server_url().await;
    let others: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(async { server_url().await })))
        .collect();
    for other in others {
        assert_eq!(other.join().unwrap(), url);
    }
}

#[tokio::test]
async fn a_private_cluster_stops_and_starts_at_the_same_address() {
    let cluster = Cluster::start().await;
    let url = cluster.fresh_database().await;
    let mut before = connect(&url).await;
    sqlx::raw_sql("CREATE TABLE t AS SELECT 7 AS id").execute(&mut before).await.unwrap();

    cluster.stop_immediate().await;
    assert!(sqlx::raw_sql("SELECT 1").execute(&mut before).await.is_err());
    assert!(PgConnection::connect(&url).await.is_err());
    cluster.start_again().await;
    let mut after = connect(&url).await;
    let id: i32 = sqlx::query_scalar("SELECT id FROM t").fetch_one(&mut after).await.unwrap();
    assert_eq!(id, 7);

    cluster.stop_fast().await;
    cluster.start_again().await;
    let mut socket = connect(&cluster.socket_url("postgres")).await;
    assert_eq!(setting(&mut socket, "max_connections").await, "200");
    assert!(cluster.log().contains("received fast shutdown request"));

    let folder = cluster.folder().to_owned();
    drop(cluster);
    assert!(!folder.exists());
}

/// Runs a second time as the child of `a_killed_process_leaves_no_server`.
const CHILD: &str = "DURABLE_TEST_CHILD";

#[tokio::test]
async fn a_killed_process_leaves_no_server() {
    if std::env::var(CHILD).is_ok() {
        let cluster = Cluster::start().await;
        let (folder, url) = (cluster.folder().display(), cluster.url("postgres"));
        eprintln!("\nstarted {folder} {url}");
        std::future::pending::<()>().await;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "postgres::tests::a_killed_process_leaves_no_server"])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("started ")).unwrap();
    let [_, folder, url] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    connect(url).await.close().await.unwrap();
    assert!(Path::new(folder).is_dir());

    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    while Path::new(folder).exists() {
        assert!(killed.elapsed() < Duration::from_secs(60), "`{folder}` is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(PgConnection::connect(url).await.is_err());
}

#[test]
fn a_url_takes_another_database() {
    for (url, expected) in [
        ("postgres://u:p@h:1/a", "postgres://u:p@h:1/b"),
        ("postgres://h", "postgres://h/b"),
        ("postgresql://h/a?sslmode=disable", "postgresql://h/b?sslmode=disable"),
        ("postgres:///?host=/tmp/x", "postgres:///b?host=/tmp/x"),
    ] {
        assert_eq!(with_database(url, "b"), expected);
    }
}

mod both {
    crate::on_both_stores! {
        async fn each_test_has_a_database_of_its_own(database: Database) {
            assert!(database.url().starts_with(&database.store().to_string()));
        }
    }
}

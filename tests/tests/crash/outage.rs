//! The database goes away and comes back under executors that live.

use std::time::Duration;

use durable_tests::Database;
use durable_tests::postgres::Cluster;

use crate::long;
use crate::scene::{LIMIT, Scene, eventually};
use crate::takeover::{recorded, runner};

/// Grace, outage.
fn times() -> (u64, Duration) {
    if long() { (3_000, Duration::from_secs(20)) } else { (1_000, Duration::from_secs(6)) }
}

async fn nothing_moves(how: &str) {
    let cluster = Cluster::start().await;
    let scene = Scene::at(&cluster.fresh_database().await);
    let (grace, outage) = times();
    let names = ["a", "b", "c"];
    let mut victims = Vec::new();
    for name in names {
        let start = format!("steps/{name}/4/12/200");
        let mut victim = scene.victim(name).flag("grace", grace).flag("heartbeat", grace / 3).start(&start).spawn();
        victim.is_ready().await;
        victims.push(victim);
    }
    eventually("all work", LIMIT, async || scene.effects().len() >= 18).await;
    match how {
        "fast" => cluster.stop_fast().await,
        _ => cluster.stop_immediate().await,
    }
    // The outage itself, which is what is tested.
    tokio::time::sleep(outage).await;
    cluster.start_again().await;
    eventually("the server answers", LIMIT, async || scene.try_texts("SELECT status FROM workflows").await.is_ok())
        .await;
    scene.all_done(12).await;
    let moved =
        "SELECT workflow_id || ' epoch ' || epoch || ' recoveries ' || recoveries FROM workflows WHERE epoch <> 1";
    let executors = scene.texts("SELECT name || ' ' || status FROM executors ORDER BY 1").await;
    assert_eq!(scene.texts(moved).await, [""; 0], "executors: {executors:?}");
    assert_eq!(
        scene.texts("SELECT name || ' ' || status FROM executors ORDER BY 1").await,
        ["a alive", "b alive", "c alive"]
    );
    assert_eq!(
        scene.texts("SELECT DISTINCT CAST(payload AS text) FROM workflow_payloads WHERE part = 'result'").await,
        ["78"]
    );
    let effects = scene.effects();
    assert_eq!(effects.len(), 12 * 12, "something ran twice");
    for victim in victims {
        victim.shuts_down().await;
    }
}

#[tokio::test]
async fn an_outage_of_the_server_moves_no_workflow_and_repeats_no_step() {
    nothing_moves("fast").await;
}

#[tokio::test]
async fn a_crash_of_the_server_moves_no_workflow_and_repeats_no_step() {
    nothing_moves("immediate").await;
}

#[test]
fn an_executor_that_loses_all_its_sessions_keeps_its_work() {
    let case = async |database: Database| {
        let scene = Scene::new(&database);
        let a = scene.victim("a").flag("grace", 1_000).flag("heartbeat", 300).start("steps/w/1/3/2500").spawn();
        eventually("the first step is recorded", LIMIT, async || recorded(&scene, "w", 1).await.len() == 1).await;
        eventually("the second runs", LIMIT, async || scene.count("w", ":1") == 1).await;
        let its = scene
            .texts("SELECT pid::text FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'durable'")
            .await
            .join(", ");
        let mut b = scene.victim("b").flag("grace", 1_000).flag("heartbeat", 300).spawn();
        b.is_ready().await;
        let ended = scene
            .number(&format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid IN ({its})"))
            .await;
        assert!(ended >= 2, "lock, heartbeat and writer have sessions: {its}");
        // For two graces the other may not take it.
        for _ in 0..10 {
            assert_eq!(runner(&scene, "w").await, "a");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(scene.result("w").await, "6");
        assert_eq!(recorded(&scene, "w", 1).await, [":0", ":1", ":2"]);
        assert_eq!(scene.texts("SELECT name || ' ' || status FROM executors ORDER BY 1").await, ["a alive", "b alive"]);
        assert_eq!(scene.effects().len(), 3);
        assert!(scene.effects().iter().all(|[_, _, by]| *by == a.pid()));
        a.shuts_down().await;
        b.shuts_down().await;
    };
    durable_tests::run::postgres(case);
}

//! Orderly restarts, and executors that are busy but alive.

use std::time::Duration;

use durable_tests::{Database, on_both_stores};

use crate::scene::{LIMIT, Scene, eventually};

/// Waits for some heartbeats of an executor.
pub(crate) async fn heartbeats(scene: &Scene, name: &str, number: u32) {
    let sql = format!("SELECT CAST(heartbeat_at AS text) FROM executors WHERE name = '{name}'");
    for _ in 0..number {
        let before = scene.texts(&sql).await;
        eventually("another heartbeat", Duration::from_secs(5), async || scene.texts(&sql).await != before).await;
    }
}

on_both_stores! {
    async fn processes_that_meet_a_new_database_at_the_same_moment_all_start(database: Database) {
        let scene = Scene::new(&database);
        let mut victims: Vec<_> =
            (0..8).map(|n| scene.victim("victim").start(&format!("steps/w{n}/1/1/0")).spawn()).collect();
        for victim in &mut victims {
            victim.is_ready().await;
        }
        scene.all_done(8).await;
        // Each once, and none left out.
        assert_eq!(scene.number("SELECT count(*) - max(version) FROM migrations").await, 0);
        for victim in victims {
            victim.shuts_down().await;
        }
    }

    async fn graceful_restarts_during_a_long_call_are_no_recoveries(database: Database) {
        let scene = Scene::new(&database);
        for restart in 1..=25 {
            let victim =
                scene.victim("victim").flag("max-recoveries", 2).flag("cancel-grace", 0).start("gated/w/1/0/0").spawn();
            eventually("the call waits", LIMIT, async || scene.count("w", ":1") == restart).await;
            victim.shuts_down().await;
            let row = scene.texts("SELECT status || ' ' || recoveries FROM workflows").await;
            assert_eq!(row, ["pending 0"], "after restart {restart}");
        }
        scene.open_gate();
        let last = scene.victim("victim").flag("max-recoveries", 2).spawn();
        assert_eq!(scene.result("w").await, "6");
        last.shuts_down().await;
        assert_eq!([scene.count("w", ":0"), scene.count("w", ":2")], [1, 1]);
        assert_eq!(scene.number("SELECT recoveries FROM workflows").await, 0);
    }

    async fn steps_that_block_every_thread_cost_no_heartbeat_and_no_workflow(database: Database) {
        let scene = Scene::new(&database);
        // As many as the runtime has threads, each for longer than three leases.
        let flags = |name| scene.victim(name).flag("lease", 1_000);
        let a = flags("a").start("blocking/w/4/2/3500").spawn();
        let b = flags("b").flag("recover", "no").spawn();
        eventually("both threads are blocked", LIMIT, async || scene.effects().len() >= 2).await;
        heartbeats(&scene, "a", 15).await;
        scene.all_done(4).await;
        assert_eq!(scene.number("SELECT count(*) FROM executors WHERE status <> 'alive'").await, 0);
        assert_eq!(scene.texts("SELECT DISTINCT CAST(epoch AS text) FROM workflows").await, ["1"]);
        assert!(scene.effects().iter().all(|[id, place, by]| scene.count(id, place) == 1 && *by == a.pid()));
        a.shuts_down().await;
        b.shuts_down().await;
    }
}

#[test]
fn steps_that_hold_the_whole_pool_cost_no_heartbeat_and_no_workflow() {
    let case = async |database: Database| {
        let scene = Scene::new(&database);
        let flags = |name| scene.victim(name).flag("lease", 1_000);
        let a = flags("a").flag("shared-pool", 2).start("querying/w/6/2/1200").spawn();
        let b = flags("b").flag("recover", "no").spawn();
        eventually("both connections are taken", LIMIT, async || scene.effects().len() >= 2).await;
        heartbeats(&scene, "a", 15).await;
        scene.all_done(6).await;
        assert_eq!(scene.number("SELECT count(*) FROM executors WHERE status <> 'alive'").await, 0);
        assert_eq!(scene.texts("SELECT DISTINCT CAST(epoch AS text) FROM workflows").await, ["1"]);
        assert!(scene.effects().iter().all(|[id, place, by]| scene.count(id, place) == 1 && *by == a.pid()));
        a.shuts_down().await;
        b.shuts_down().await;
    };
    durable_tests::run::postgres(case);
}

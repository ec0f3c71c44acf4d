//! Writes in flight while ownership changes hands, and the race of a cancel.

use std::time::Duration;

use durable_tests::{Database, on_both_stores};
use sqlx::{Postgres, Transaction};

use crate::scene::{LIMIT, Scene, eventually};
use crate::takeover::recorded;

/// Waits until a step's write waits for a lock that the transaction holds.
async fn write_is_in_flight(scene: &Scene) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'durable' \
               AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO durable.workflow_steps%'";
    eventually("the write waits", LIMIT, async || scene.number(sql).await > 0).await;
}

/// A step of `w` runs; gives the executor's id and a transaction.
async fn in_a_step(scene: &Scene) -> (String, Transaction<'static, Postgres>) {
    eventually("the second step runs", LIMIT, async || scene.count("w", ":1") == 1).await;
    let executor = scene.texts("SELECT executor_id FROM workflows WHERE workflow_id = 'w'").await.remove(0);
    (executor, scene.postgres().begin().await.unwrap())
}

async fn change(tx: &mut Transaction<'static, Postgres>, sql: &'static str, executor: &str) {
    let changed = sqlx::query(sql).bind(executor).execute(&mut **tx).await.unwrap();
    assert!(changed.rows_affected() > 0, "{sql}");
}

const GIVE_BACK: &str =
    "UPDATE durable.workflows SET status = 'pending', executor_id = NULL, epoch = epoch + 1 WHERE executor_id = $1";

#[test]
fn a_write_that_began_before_a_takeover_and_would_commit_after_it_is_refused() {
    let case = async |database: Database| {
        let scene = Scene::new(&database);
        let a = scene.victim("a").start("steps/w/1/3/400").spawn();
        let (executor, mut tx) = in_a_step(&scene).await;
        change(
            &mut tx,
            "UPDATE durable.executors SET status = 'dead', ended_at = clock_timestamp() WHERE executor_id = $1",
            &executor,
        )
        .await;
        change(&mut tx, "UPDATE durable.writers SET epoch = epoch + 1 WHERE executor_id = $1", &executor).await;
        write_is_in_flight(&scene).await;
        change(&mut tx, GIVE_BACK, &executor).await;
        tx.commit().await.unwrap();

        // The process comes back as another executor, and does the work again from the first record.
        assert_eq!(scene.result("w").await, "6");
        assert_eq!(recorded(&scene, "w", 1).await, [":0"]);
        assert_eq!(recorded(&scene, "w", 3).await, [":1", ":2"]);
        assert_eq!([0, 1, 2].map(|n| scene.count("w", &format!(":{n}"))), [1, 2, 1]);
        assert_eq!(scene.texts("SELECT status FROM executors ORDER BY started_at").await, ["dead", "alive"]);
        a.shuts_down().await;
    };
    durable_tests::run::postgres(case);
}

#[test]
fn a_write_in_flight_while_its_workflow_is_taken_away_is_refused_and_the_executor_lives_on() {
    let case = async |database: Database| {
        let scene = Scene::new(&database);
        let a = scene.victim("a").start("steps/w/1/3/400").start("steps/other/8/3/400").spawn();
        let (executor, mut tx) = in_a_step(&scene).await;
        change(
            &mut tx,
            "UPDATE durable.writers SET interruptions = interruptions + 1 WHERE executor_id = $1",
            &executor,
        )
        .await;
        write_is_in_flight(&scene).await;
        let only = "UPDATE durable.workflows SET status = 'pending', executor_id = NULL, epoch = epoch + 1 \
                    WHERE workflow_id = 'w' AND executor_id = $1";
        change(&mut tx, only, &executor).await;
        tx.commit().await.unwrap();

        scene.all_done(9).await;
        assert_eq!(scene.result("w").await, "6");
        assert_eq!(recorded(&scene, "w", 1).await, [":0"]);
        assert_eq!(recorded(&scene, "w", 3).await, [":1", ":2"]);
        assert_eq!(scene.texts("SELECT status FROM executors").await, ["alive"]);
        // The neighbours in the same batch were only delayed.
        let others = scene.effects().iter().filter(|[id, _, _]| id != "w").count();
        assert_eq!(others, 8 * 3);
        assert_eq!(
            scene.texts("SELECT DISTINCT CAST(epoch AS text) FROM workflows WHERE workflow_id <> 'w'").await,
            ["1"]
        );
        a.shuts_down().await;
    };
    durable_tests::run::postgres(case);
}

#[test]
fn a_workflow_that_a_takeover_finds_locked_is_taken_over_later() {
    let case = async |database: Database| {
        let scene = Scene::new(&database);
        let a = scene.victim("a").start("steps/w/1/3/400").spawn();
        let (_, mut tx) = in_a_step(&scene).await;
        sqlx::query("SELECT 1 FROM durable.workflows WHERE workflow_id = 'w' FOR UPDATE")
            .execute(&mut *tx)
            .await
            .unwrap();
        a.kill();
        let b = scene.victim("b").spawn();
        eventually("the first is dead", LIMIT, async || {
            scene.number("SELECT count(*) FROM executors WHERE name = 'a' AND status = 'dead'").await == 1
        })
        .await;
        let beat = "SELECT heartbeat_at::text FROM executors WHERE name = 'b'";
        for _ in 0..5 {
            let before = scene.texts(beat).await;
            eventually("another sweep", Duration::from_secs(5), async || scene.texts(beat).await != before).await;
        }
        tx.rollback().await.unwrap();
        assert_eq!(scene.result("w").await, "6");
        b.shuts_down().await;
    };
    durable_tests::run::postgres(case);
}

on_both_stores! {
    async fn no_step_that_started_after_an_acknowledged_cancel_is_recorded(database: Database) {
        let scene = Scene::new(&database);
        let a = scene.victim("a").flag("cancel-grace", 1_000).start("steps/w/4/60/5").spawn();
        for n in 0..4 {
            let id = format!("w{n}");
            eventually("it works", LIMIT, async || scene.count(&id, ":3") == 1).await;
            let mut b = scene.victim("b").flag("recover", "no").flag("cancel", &id).spawn();
            b.is_ready().await;
            b.shuts_down().await;
            assert_eq!(scene.status(&id).await, "cancelled");
        }
        a.shuts_down().await;
        assert_eq!(scene.texts("SELECT DISTINCT status FROM workflows").await, ["cancelled"]);
        for n in 0..4 {
            let places = recorded(&scene, &format!("w{n}"), 1).await;
            assert!((1..60).contains(&places.len()), "the cancel came in the middle");
            let lines: Vec<_> = scene.effects().into_iter().filter(|[id, _, _]| *id == format!("w{n}")).collect();
            let acknowledged = lines.iter().position(|[_, place, _]| place == "cancelled").unwrap();
            for [_, place, _] in &lines[acknowledged..] {
                assert!(!places.contains(place), "{place} began after the cancel, and is recorded");
            }
        }
    }
}

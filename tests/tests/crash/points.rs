//! A kill at every named point: before a write is sent, after it is sent, after it is acknowledged, in a body, between
//! steps, before the end is recorded, and in the middle of a recovery.

use durable_tests::{Database, on_both_stores};

use crate::ledger::Ledger;
use crate::scene::Scene;

/// Kinds of workflow: its start, its recorded steps, its result.
const KINDS: [(&str, usize, &str); 2] = [("steps/w/1/6/0", 6, "21"), ("arms/w/1/3/0", 18, "36")];

/// Runs one workflow through a chain of kills, each at a point, until it ends.
async fn survives(store: durable_tests::Store, kills: &[(&str, u32)], at_least: usize) {
    let one_kind = async |(start, steps, result): (&str, usize, &str)| {
        let database = store.fresh_database().await;
        let scene = Scene::new(&database);
        let mut ledger = Ledger::default();
        let launch = || scene.victim("victim").start(start);
        ledger.kill_at(&scene, launch, kills, async || scene.status("w").await == "done").await;
        let last = launch().spawn();
        assert_eq!(scene.result("w").await, result);
        last.shuts_down().await;
        ledger.settle(&scene, steps).await;
        assert!(ledger.kills >= at_least, "only {} kills", ledger.kills);
    };
    tokio::join!(one_kind(KINDS[0]), one_kind(KINDS[1]));
}

/// The same point, a little later each time.
async fn survives_at(database: &Database, point: &str) {
    survives(database.store(), &[(point, 1), (point, 2), (point, 1), (point, 2), (point, 3)], 3).await;
}

on_both_stores! {
    async fn a_kill_before_a_write_is_sent_repeats_only_what_was_in_flight(database: Database) {
        survives_at(&database, "before-send").await;
    }

    async fn a_kill_after_a_write_is_sent_repeats_only_what_was_in_flight(database: Database) {
        survives_at(&database, "after-send").await;
    }

    async fn a_kill_after_an_acknowledged_write_repeats_only_what_was_in_flight(database: Database) {
        survives_at(&database, "after-acknowledge").await;
    }

    async fn a_kill_in_a_body_repeats_only_what_was_in_flight(database: Database) {
        survives_at(&database, "in-body").await;
    }

    async fn a_kill_between_steps_repeats_nothing_that_was_recorded(database: Database) {
        survives_at(&database, "after-checkpoint").await;
    }

    async fn a_kill_before_the_end_is_recorded_repeats_no_step(database: Database) {
        survives(database.store(), &[("before-settle", 1), ("before-settle", 1)], 2).await;
    }

    async fn a_kill_right_after_a_claim_loses_nothing(database: Database) {
        survives(database.store(), &[("in-body", 2), ("after-claim", 1), ("after-claim", 1), ("in-body", 2), ("after-claim", 1)], 5).await;
    }

    async fn a_kill_while_histories_are_read_loses_nothing(database: Database) {
        survives(database.store(), &[("in-body", 2), ("in-recovery", 1), ("in-recovery", 1), ("in-body", 2), ("in-recovery", 1)], 5).await;
    }

    async fn a_kill_between_takeover_and_release_loses_nothing(database: Database) {
        let between = ("between-takeover-and-release", 1);
        survives(database.store(), &[("in-body", 2), between, between, ("in-body", 2), between], 5).await;
    }
}

//! Kills while many workflows ride in one statement.

use durable_tests::on_both_stores;

use crate::ledger::Ledger;
use crate::scene::Scene;

on_both_stores! {
    async fn a_kill_between_send_and_acknowledgement_of_a_batch_repeats_only_what_was_in_flight(database: Database) {
        let scene = Scene::new(&database);
        let mut ledger = Ledger::default();
        let launch = || scene.victim("victim").start("steps/w/100/3/0");
        let kills = [("before-send", 3), ("after-send", 2), ("after-send", 2), ("after-acknowledge", 1), ("before-settle", 30)];
        let done = "SELECT count(*) FROM workflows WHERE status = 'done'";
        ledger.kill_at(&scene, launch, &kills, async || scene.number(done).await == 100).await;
        assert!(ledger.kills >= 3, "only {} kills", ledger.kills);
        let last = launch().spawn();
        scene.all_done(100).await;
        last.shuts_down().await;
        ledger.settle(&scene, 300).await;
        let wrong = "SELECT count(*) FROM workflow_payloads WHERE part = 'result' AND CAST(payload AS text) <> '6'";
        assert_eq!(scene.number(wrong).await, 0);
    }

    async fn an_error_with_odd_characters_fails_no_neighbour_in_its_batch(database: Database) {
        let scene = Scene::new(&database);
        let mut ledger = Ledger::default();
        let launch = || scene.victim("victim").start("steps/w/50/3/0").start("refused/odd/10/0/0");
        ledger.kill_at(&scene, launch, &[("after-send", 3)], async || false).await;
        let last = launch().spawn();
        scene.all_done(60).await;
        last.shuts_down().await;
        ledger.settle(&scene, 50 * 3 + 10 * 2).await;
        let errors = scene.texts("SELECT error_message FROM workflow_steps WHERE status = 'error'").await;
        assert_eq!(errors.len(), 10);
        assert!(errors.iter().all(|error| error.contains("odd") && !error.contains('\0')), "{errors:?}");
        // Each went on after its error: 1 for the error, 1 from the step behind it.
        let odd = "SELECT count(*) FROM workflow_payloads WHERE workflow_id LIKE 'odd%' AND part = 'result' AND CAST(payload AS text) = '2'";
        assert_eq!(scene.number(odd).await, 10);
    }
}

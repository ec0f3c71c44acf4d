//! A step that takes its process with it every time.

use durable_tests::on_both_stores;
use rustix::process::Signal;

use crate::scene::{LIMIT, Scene, eventually};

/// Restarts until the poison is parked; how often it killed.
async fn until_dead(scene: &Scene, starts: &[&str], max_recoveries: u32) -> usize {
    let before = scene.count("poison", ":1");
    let mut kills = 0;
    loop {
        let launch = scene.victim("victim").flag("max-recoveries", max_recoveries);
        let mut victim = starts.iter().fold(launch, |launch, spec| launch.start(spec)).spawn();
        let mut ended = None;
        eventually("the poison works or is parked", LIMIT, async || {
            ended = victim.ended_by();
            ended.is_some() || scene.status("poison").await == "dead"
        })
        .await;
        if ended.is_none() {
            victim.shuts_down().await;
            return kills;
        }
        assert_eq!(ended, Some(Signal::ABORT.as_raw()));
        kills += 1;
        assert_eq!(scene.count("poison", ":1"), before + kills);
    }
}

on_both_stores! {
    async fn a_step_that_kills_its_process_is_parked_after_its_recoveries_and_can_be_resumed(database: Database) {
        let scene = Scene::new(&database);
        // The first run, and one for each recovery.
        assert_eq!(until_dead(&scene, &["steps/other/5/3/0", "poison/poison/1/0/200"], 3).await, 4);
        let row = "SELECT status || ' ' || reason || ' ' || recoveries FROM workflows WHERE workflow_id = 'poison'";
        assert_eq!(scene.texts(row).await, ["dead recoveries 4"]);
        assert_eq!(scene.count("poison", ":0"), 1, "its first step was recorded");
        // A recorded start of the parked id is still the same run; it is not started again.
        let mut victim = scene.victim("victim").start("poison/poison/1/0/200").flag("result", "poison").spawn();
        eventually("the others go on", LIMIT, async || {
            scene.number("SELECT count(*) FROM workflows WHERE status = 'done'").await == 5
        })
        .await;
        victim.is_ready().await;
        assert!(victim.output().contains("result of poison: Dead\n"), "{}", victim.output());
        victim.shuts_down().await;

        let epoch = "SELECT epoch FROM workflows WHERE workflow_id = 'poison'";
        let before = scene.number(epoch).await;
        scene.victim("victim").flag("resume", "poison").spawn().dies().await;
        assert_eq!(scene.count("poison", ":1"), 5);
        // Raised by the resume and by the claim after it; the counts are at zero again.
        assert_eq!(scene.number(epoch).await, before + 2);
        let row = "SELECT status || ' ' || coalesce(reason, '-') || ' ' || recoveries FROM workflows WHERE workflow_id = 'poison'";
        assert_eq!(scene.texts(row).await, ["running - 0"]);
        assert_eq!(until_dead(&scene, &[], 3).await, 3);
        assert_eq!(scene.count("poison", ":0"), 1, "its first step was never run again");
    }

    async fn the_innocent_that_run_beside_a_poison_are_not_parked_with_it(database: Database) {
        let scene = Scene::new(&database);
        // Their first step takes longer than the poison leaves them.
        let kills = until_dead(&scene, &["steps/other/5/3/400", "poison/poison/1/0/30"], 5).await;
        assert_eq!(kills, 6, "the first run, and one for each recovery");
        let victim = scene.victim("victim").flag("max-recoveries", 5).spawn();
        eventually("the others go on", LIMIT, async || {
            scene.number("SELECT count(*) FROM workflows WHERE status = 'done'").await == 5
        })
        .await;
        victim.shuts_down().await;
        assert_eq!(scene.number("SELECT count(*) FROM workflows WHERE status = 'dead'").await, 1);
    }
}

//! Frozen owners: SIGSTOP past the lease, a takeover, and SIGCONT.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_tests::everywhere;
use rustix::process::Signal;

use crate::long;
use crate::restarts::heartbeats;
use crate::scene::{LIMIT, Launch, Scene, Victim, eventually};
use crate::takeover::runner;

/// Stops a process at a moment when it holds no lock of the database file: with one, nobody could write until it wakes.
async fn freeze(scene: &Scene, victim: &Victim) {
    loop {
        victim.signal(Signal::STOP);
        if scene.is_writable().await {
            return;
        }
        victim.signal(Signal::CONT);
    }
}

/// The records of one workflow, whole.
async fn history(scene: &Scene) -> Vec<String> {
    let sql = "SELECT branch || ':' || step_index || ' ' || seq || ' ' || epoch || ' ' || write_id || ' ' || CAST(output AS text) \
               FROM workflow_steps WHERE workflow_id = 'w' ORDER BY branch, step_index";
    scene.texts(sql).await
}

/// Three arms of `steps`, then three items of `steps`: what one run could have recorded at some moment.
fn assert_possible(history: &[String], steps: usize) {
    let mut lengths: BTreeMap<String, usize> = BTreeMap::new();
    for row in history {
        let [place, _, _, _, output] = row.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let (branch, index) = place.split_once(':').unwrap();
        let length = lengths.entry(branch.to_owned()).or_default();
        assert_eq!(index, length.to_string(), "a branch has a gap: {history:#?}");
        assert_eq!(output, (*length + 1).to_string(), "{history:#?}");
        *length += 1;
    }
    let of = |call: &str| {
        lengths.iter().filter(|(branch, _)| branch.starts_with(call)).map(|(_, length)| *length).sum::<usize>()
    };
    assert!(of("1.") == 0 || of("0.") == 3 * steps, "the second call began before the first ended: {history:#?}");
}

fn short_lease(scene: &Scene, name: &str) -> Launch {
    scene.victim(name).flag("lease", 1_500)
}

async fn lines_by(scene: &Scene, victim: &Victim) -> usize {
    scene.effects().iter().filter(|[_, _, by]| *by == victim.pid()).count()
}

async fn executors(scene: &Scene, name: &str) -> Vec<String> {
    scene.texts(&format!("SELECT status FROM executors WHERE name = '{name}' ORDER BY started_at")).await
}

everywhere! {
    async fn a_frozen_owner_that_wakes_after_the_takeover_writes_nothing_and_comes_back_as_another(database: Database) {
        let scene = Scene::new(&database);
        let a = short_lease(&scene, "a").start("arms/w/1/3/150").spawn();
        eventually("three bodies run", LIMIT, async || scene.effects().len() >= 6).await;
        freeze(&scene, &a).await;
        let by_a = lines_by(&scene, &a).await;
        let mut b = short_lease(&scene, "b").spawn();
        b.is_ready().await;
        assert_eq!(scene.result("w").await, "36");
        let settled = "SELECT status || ' ' || epoch || ' ' || write_id FROM workflows WHERE workflow_id = 'w'";
        let (before, row) = (history(&scene).await, scene.texts(settled).await);

        a.signal(Signal::CONT);
        eventually("it comes back as another", LIMIT, async || executors(&scene, "a").await == ["dead", "alive"]).await;
        // It takes what a third one leaves behind.
        b.shuts_down().await;
        let c = short_lease(&scene, "c").flag("max-running", 1).start("gated/new/1/0/0").spawn();
        eventually("the third works", LIMIT, async || scene.count("new", ":1") == 1).await;
        c.kill();
        eventually("the woken one works", LIMIT, async || runner(&scene, "new").await == "a").await;
        scene.open_gate();
        assert_eq!(scene.result("new").await, "6");

        assert!(scene.effects().iter().any(|[id, _, by]| id == "new" && *by == a.pid()));
        let later = scene.effects().iter().filter(|[id, _, by]| id == "w" && *by == a.pid()).count();
        assert_eq!(later, by_a, "a body began after the stop");
        assert_eq!(history(&scene).await, before);
        assert_eq!(scene.texts(settled).await, row);
        assert_eq!(history(&scene).await.len(), 18);
        a.shuts_down().await;
    }

    async fn a_machine_that_slept_for_longer_than_a_lease_moves_no_workflow(database: Database) {
        let scene = Scene::new(&database);
        let mut victims = Vec::new();
        for name in ["a", "b", "c"] {
            let mut victim = short_lease(&scene, name).start(&format!("steps/{name}/2/30/100")).spawn();
            victim.is_ready().await;
            victims.push(victim);
        }
        // All have watched for a lease, and would judge.
        eventually("all have worked for a lease", LIMIT, async || scene.effects().len() >= 6 * 17).await;
        for victim in &victims {
            freeze(&scene, victim).await;
        }
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        // The first to wake finds the others' heartbeats old, though they wake as well.
        victims[0].signal(Signal::CONT);
        heartbeats(&scene, "a", 3).await;
        for victim in &victims[1..] {
            victim.signal(Signal::CONT);
        }
        scene.all_done(6).await;
        assert_eq!(scene.texts("SELECT status FROM executors").await, ["alive"; 3]);
        assert_eq!(scene.texts("SELECT DISTINCT CAST(epoch AS text) FROM workflows").await, ["1"]);
        assert_eq!(scene.effects().len(), 6 * 30);
        for victim in victims {
            victim.shuts_down().await;
        }
    }

    async fn two_owners_of_one_workflow_leave_a_history_that_one_run_could_have_made(database: Database) {
        let store = database.store();
        let once = async |seed: usize| {
            let database = store.fresh_database().await;
            let scene = Scene::new(&database);
            let a = short_lease(&scene, "a").start("arms/w/1/4/120").spawn();
            let b = short_lease(&scene, "b").spawn();
            eventually("some bodies have begun", LIMIT, async || scene.effects().len() >= 3 * seed).await;
            freeze(&scene, &a).await;
            let by_a = lines_by(&scene, &a).await;
            // Woken as soon as the other has begun: both hold the workflow now.
            eventually("the other runs it", LIMIT, async || runner(&scene, "w").await == "b").await;
            a.signal(Signal::CONT);
            eventually("the workflow is done", LIMIT, async || {
                assert_possible(&history(&scene).await, 4);
                scene.status("w").await == "done"
            })
            .await;
            assert_eq!(scene.result("w").await, "60");
            let all = history(&scene).await;
            assert_possible(&all, 4);
            assert_eq!(all.len(), 24);
            eventually("the loser comes back", LIMIT, async || executors(&scene, "a").await == ["dead", "alive"]).await;
            assert_eq!(lines_by(&scene, &a).await, by_a, "a body began after the stop");
            for [id, place, _] in scene.effects() {
                assert!(scene.count(&id, &place) <= 2, "{place} began more than twice");
            }
            b.shuts_down().await;
            a.shuts_down().await;
        };
        for round in 0..if long() { 10 } else { 1 } {
            tokio::join!(once(1 + round % 2), once(2 + round % 3), once(4));
        }
    }
}

//! Killed executors, and who goes on with their work.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use durable_tests::everywhere;

use crate::ledger::Ledger;
use crate::long;
use crate::scene::{LIMIT, Scene, eventually};

/// Three times the promised 5 s.
const TAKEN_OVER: Duration = Duration::from_secs(15);

/// The executor that runs a workflow, by its name.
pub(crate) async fn runner(scene: &Scene, id: &str) -> String {
    let sql = format!(
        "SELECT e.name FROM workflows w JOIN executors e ON e.executor_id = w.executor_id \
         WHERE w.status = 'running' AND w.workflow_id = '{id}'"
    );
    scene.texts(&sql).await.pop().unwrap_or_default()
}

/// Places of a workflow that were recorded under an epoch.
pub(crate) async fn recorded(scene: &Scene, id: &str, epoch: i32) -> Vec<String> {
    let sql = format!(
        "SELECT branch || ':' || step_index FROM workflow_steps WHERE workflow_id = '{id}' AND epoch = {epoch} ORDER BY seq"
    );
    scene.texts(&sql).await
}

everywhere! {
    async fn another_process_runs_a_killed_ones_workflow_within_the_promise_and_repeats_only_what_was_in_flight(database: Database) {
        let scene = Scene::new(&database);
        let defaults = |name| scene.victim(name).flag("heartbeat", 1_000).flag("grace", 3_000);
        let a = defaults("a").start("steps/w/1/20/100").spawn();
        let b = defaults("b").spawn();
        eventually("some steps are recorded", LIMIT, async || recorded(&scene, "w", 1).await.len() >= 4).await;
        assert_eq!(runner(&scene, "w").await, "a");
        let pid = a.pid();
        a.kill();
        let killed = Instant::now();
        eventually("the other runs it", TAKEN_OVER, async || runner(&scene, "w").await == "b").await;
        eprintln!("taken over after {:?}", killed.elapsed());
        assert_eq!(scene.result("w").await, "210");
        b.shuts_down().await;

        let (first, second) = (recorded(&scene, "w", 1).await, recorded(&scene, "w", 2).await);
        assert_eq!(first.len() + second.len(), 20);
        assert!(first.iter().all(|place| scene.count("w", place) == 1), "a recorded step ran again");
        let repeated: Vec<_> = second.iter().filter(|place| scene.count("w", place) != 1).collect();
        assert!(repeated.len() <= 1 && repeated.iter().all(|place| scene.count("w", place) == 2), "{repeated:?}");
        let by_a = scene.effects().iter().filter(|[_, _, by]| *by == pid).count();
        assert!(by_a <= first.len() + 1);
        assert_eq!(scene.number("SELECT recoveries FROM workflows").await, 1);
    }

    async fn a_worker_of_one_at_a_time_that_is_killed_at_random_instants_gets_everything_done(database: Database) {
        let scene = Scene::new(&database);
        let mut ledger = Ledger::default();
        let kills = if long() { 200 } else { 8 };
        let random = |n: u64| RandomState::new().hash_one(n);
        let mut workflows = 0;
        for n in 0..kills {
            // Always one that runs and one behind it.
            workflows += 2;
            let start = format!("steps/w{n}-/2/3/15");
            let before = scene.effects().len();
            let victim = scene.victim("victim").flag("max-running", 1).start(&start).spawn();
            let step = random(n) as usize % 5;
            eventually("the random step begins", LIMIT, async || scene.effects().len() > before + step).await;
            tokio::time::sleep(Duration::from_micros(random(n) % 20_000)).await;
            let pid = victim.pid();
            victim.kill();
            ledger.note_kill(&scene, &pid).await;
        }
        // A kill may have come before the second start was recorded.
        let mut last = scene.victim("victim").flag("max-running", 1);
        for n in 0..kills {
            last = last.start(&format!("steps/w{n}-/2/3/15"));
        }
        let last = last.spawn();
        scene.all_done(workflows).await;
        last.shuts_down().await;
        ledger.settle(&scene, usize::try_from(workflows).unwrap() * 3).await;
    }

    async fn restarts_take_up_what_is_unfinished_and_leave_what_is_finished(database: Database) {
        let scene = Scene::new(&database);
        let mut ledger = Ledger::default();
        let unfinished = "SELECT count(*) FROM workflows WHERE status <> 'done'";
        for restart in 0..4 {
            let victim = scene.victim("victim").start("steps/done/20/2/0").start("gated/left/5/0/0").spawn();
            eventually("all are as far as they get", LIMIT, async || {
                (0..5).all(|n| scene.count(&format!("left{n}"), ":1") == restart + 1) && scene.number(unfinished).await == 5
            })
            .await;
            assert_eq!(scene.number("SELECT count(*) FROM workflows").await, 25);
            let pid = victim.pid();
            victim.kill();
            ledger.note_kill(&scene, &pid).await;
        }
        scene.open_gate();
        let mut last = scene.victim("victim").spawn();
        scene.all_done(25).await;
        last.is_ready().await;
        assert!(last.output().starts_with("recovered 5 workflows, 5 steps already recorded\n"), "{}", last.output());
        last.shuts_down().await;
        ledger.settle(&scene, 20 * 2 + 5 * 3).await;
    }

    async fn a_new_process_of_the_same_name_is_another_executor_and_takes_over(database: Database) {
        let scene = Scene::new(&database);
        let mut ledger = Ledger::default();
        for round in 1..=2 {
            let victim = scene.victim("pod-0").start("gated/w/1/0/0").spawn();
            eventually("the step waits", LIMIT, async || scene.count("w", ":1") == round).await;
            let pid = victim.pid();
            victim.kill();
            ledger.note_kill(&scene, &pid).await;
        }
        scene.open_gate();
        let last = scene.victim("pod-0").spawn();
        assert_eq!(scene.result("w").await, "6");
        let executors = scene.texts("SELECT executor_id || ' ' || name || ' ' || status FROM executors ORDER BY started_at").await;
        let ids: HashSet<_> = executors.iter().map(|row| row.split(' ').next().unwrap()).collect();
        assert_eq!(ids.len(), 3, "{executors:?}");
        let ends: Vec<_> = executors.iter().map(|row| row.split_once(' ').unwrap().1).collect();
        assert_eq!(ends, ["pod-0 dead", "pod-0 dead", "pod-0 alive"]);
        last.shuts_down().await;
        ledger.settle(&scene, 3).await;
    }
}

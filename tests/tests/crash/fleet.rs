//! Many executors on the same queues, killed and replaced at random: each run ends once, and limits hold throughout.

use std::collections::BTreeMap;
use std::time::Duration;

use durable::{Builder, Client, QueueLimits};
use durable_tests::on_both_stores;
use rustix::time::{ClockId, clock_gettime};

use crate::scene::{LIMIT, Scene, Victim, eventually};

const HANDS: usize = 8;

/// At once, in the narrow queue.
const WIDTH: u32 = 5;

/// In any window of the metered queue.
const RATE: u32 = 40;
const WINDOW: Duration = Duration::from_millis(500);

fn monotonic_micros() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// Enqueues so many tasks, by a process that runs none.
async fn enqueue(client: &Client, queue: &str, count: usize, ms: u64) {
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..count {
        let (client, queue) = (client.clone(), queue.to_owned());
        calls.spawn(async move {
            let id = format!("{queue}:{n}");
            let input = serde_json::json!({ "name": id, "ms": ms });
            client.enqueue("task", input).id(&id).queue(&queue).await.unwrap();
        });
        if calls.len() > 500 {
            calls.join_next().await;
        }
    }
    calls.join_all().await;
}

/// Kills one of the hands at random and lets another take its place, until all is done.
async fn kill_and_replace(scene: &Scene, hands: &mut [Victim], runs: i64) -> BTreeMap<String, i64> {
    let mut killed_at = BTreeMap::new();
    let done = "SELECT count(*) FROM workflows WHERE status = 'done'";
    let narrow = "SELECT count(*) FROM workflows WHERE queue = 'narrow' AND status = 'running'";
    let mut next_kill = tokio::time::Instant::now() + Duration::from_millis(200);
    eventually("every run is done", LIMIT * 15, async || {
        let running = scene.number(narrow).await;
        assert!(running <= i64::from(WIDTH), "{running} of the narrow queue run at once, by the rows");
        if tokio::time::Instant::now() >= next_kill {
            let victim = &mut hands[fastrand::usize(..HANDS)];
            let former = std::mem::replace(victim, scene.hand().spawn());
            let pid = former.pid();
            former.kill();
            killed_at.insert(pid, monotonic_micros());
            next_kill = tokio::time::Instant::now() + Duration::from_millis(fastrand::u64(150..600));
        }
        scene.number(done).await == runs
    })
    .await;
    killed_at
}

/// When each body began and ended, by name, and by the kill of its process where it did not end.
fn intervals(scene: &Scene, queue: &str, killed_at: &BTreeMap<String, i64>) -> Vec<(i64, i64)> {
    let content = std::fs::read_to_string(scene.effects_file()).unwrap();
    let mut open: BTreeMap<(String, String), i64> = BTreeMap::new();
    let mut closed = Vec::new();
    for line in content.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[name, what, pid, at] = words.as_slice() else { panic!("`{line}` is no effect") };
        if !name.starts_with(&format!("{queue}:")) {
            continue;
        }
        let (key, at) = ((name.to_owned(), pid.to_owned()), at.parse().unwrap());
        match what {
            "begins" => drop(open.insert(key, at)),
            _ => closed.push((open.remove(&key).unwrap(), at)),
        }
    }
    for ((name, pid), begun) in open {
        let end = killed_at.get(&pid).unwrap_or_else(|| panic!("the body of {name} did not end, and {pid} lives"));
        closed.push((begun, *end));
    }
    closed
}

/// The most of these that overlap.
fn most_at_once(intervals: &[(i64, i64)]) -> i32 {
    // An end comes before a begin of the same moment.
    let mut turns: Vec<(i64, i32)> = intervals.iter().flat_map(|(begin, end)| [(*begin, 1), (*end, -1)]).collect();
    turns.sort_unstable();
    let mut now = 0;
    turns
        .into_iter()
        .map(|(_, turn)| {
            now += turn;
            now
        })
        .max()
        .unwrap_or_default()
}

on_both_stores! {
    async fn each_run_of_a_killed_fleet_ends_once_and_limits_hold(database: Database) {
        let scene = Scene::new(&database);
        let client = Builder::new().url(database.url()).client().await.unwrap();
        client.set_queue("wide", QueueLimits::new()).await.unwrap();
        client.set_queue("narrow", QueueLimits::new().concurrency(WIDTH)).await.unwrap();
        client.set_queue("metered", QueueLimits::new().rate(RATE, WINDOW)).await.unwrap();
        let mut hands: Vec<Victim> = (0..HANDS).map(|_| scene.hand().spawn()).collect();
        for hand in &mut hands {
            hand.is_ready().await;
        }
        let (wide, narrow, metered) = (18_000, 1_000, 1_000);
        let runs = i64::try_from(wide + narrow + metered).unwrap();
        let (_, _, _, killed_at) = tokio::join!(
            enqueue(&client, "wide", wide, 20),
            enqueue(&client, "narrow", narrow, 20),
            enqueue(&client, "metered", metered, 5),
            kill_and_replace(&scene, &mut hands, runs),
        );
        assert!(killed_at.len() > 2, "nobody was killed");
        hands.into_iter().for_each(Victim::kill);

        assert_eq!(scene.number("SELECT count(*) FROM workflows").await, runs);
        assert_eq!(scene.number("SELECT count(*) FROM workflow_steps").await, runs);
        assert_eq!(scene.number("SELECT count(*) FROM workflow_payloads WHERE part = 'result'").await, runs);
        assert_eq!(scene.number("SELECT count(*) FROM workflows WHERE executor_id IS NOT NULL").await, 0);
        let most = most_at_once(&intervals(&scene, "narrow", &killed_at));
        assert!((1..=i32::try_from(WIDTH).unwrap()).contains(&most), "{most} bodies of the narrow queue ran at once");
        // Claims by when they began, in microseconds on either store.
        let started = if scene.is_postgres() { "CAST(extract(epoch FROM started_at) * 1000000 AS bigint)" } else { "started_at" };
        let started = format!("SELECT CAST({started} AS text) FROM workflows WHERE queue = 'metered'");
        let mut started: Vec<i64> = scene.texts(&started).await.iter().map(|at| at.parse().unwrap()).collect();
        started.sort_unstable();
        for some in started.windows(usize::try_from(RATE).unwrap() + 1) {
            let within = some[some.len() - 1] - some[0];
            assert!(within >= i64::try_from(WINDOW.as_micros()).unwrap(), "{} claims within {within} us", some.len());
        }
    }
}

//! Runtimes begin and end: nothing is left behind, and a graceful end hands work on.

use std::time::{Duration, Instant};

use durable::{Runtime, WorkflowStatus, step, workflow};
use durable_tests::{Database, Store, everywhere};

use crate::support::{Probe, becomes, begin, insert_pending, probe, quick, reach, recovered, rows, rows_become};

#[step]
async fn plain_step(n: u64) -> u64 {
    probe().hit("plain");
    n
}

#[step]
async fn hold() {
    let probe = probe();
    probe.hit("hold");
    durable::cancelled().await;
    probe.hit("told");
}

/// Does not listen, and is cut off by a shutdown.
#[step]
async fn deaf() {
    probe().gate("deaf").await;
}

#[workflow]
async fn handed_on(n: u64) -> u64 {
    let n = plain_step(n).await;
    deaf().await;
    n
}

#[workflow]
async fn listening(n: u64) -> u64 {
    hold().await;
    plain_step(n).await
}

#[workflow]
async fn short(n: u64) -> u64 {
    plain_step(n).await
}

/// Keeps its thread and awaits nothing.
#[step]
async fn burn(milliseconds: u64) -> u64 {
    probe().hit("burning");
    let until = Instant::now() + Duration::from_millis(milliseconds);
    let mut n = 0_u64;
    while Instant::now() < until {
        n = n.wrapping_mul(31).wrapping_add(7);
    }
    std::hint::black_box(n);
    milliseconds
}

#[workflow]
async fn busy(milliseconds: u64) -> u64 {
    burn(milliseconds).await
}

macro_rules! three_hundred_steps {
    ($n:ident; $($ten:literal)*) => {$(
        let _ = $ten;
        $n = plain_step($n).await; $n = plain_step($n).await; $n = plain_step($n).await; $n = plain_step($n).await;
        $n = plain_step($n).await; $n = plain_step($n).await; $n = plain_step($n).await; $n = plain_step($n).await;
        $n = plain_step($n).await; $n = plain_step($n).await;
    )*};
}

#[workflow]
async fn long(n: u64) -> u64 {
    let mut n = n;
    three_hundred_steps!(n; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29);
    n + 1
}

#[test]
fn the_future_of_a_step_call_is_smaller_than_a_kibibyte() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let size = runtime.block_on(durable::plain(async { size_of_val(&plain_step(1)) }));
    assert!(size < 1024, "{size}");
    // Steps in sequence share their place.
    let size = size_of_val(&<long as durable::Workflow>::body(input(1)));
    assert!(size < 2048, "{size}");
}

/// An input is a type of the macro's own; it reads like the row it comes from.
fn input(n: u64) -> <long as durable::Workflow>::Input {
    serde_json::from_value(serde_json::json!({ "n": n })).unwrap()
}

/// Connections to the database that are not ours, or files of it that this process has open.
async fn connections(database: &Database) -> usize {
    match database.store() {
        Store::Postgres => {
            let others =
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
            rows(database, others).await[0].parse().unwrap()
        }
        Store::Sqlite => {
            let path = database.url().trim_start_matches("sqlite://").to_owned();
            let open = std::fs::read_dir("/proc/self/fd").unwrap();
            open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
                .filter(|file| file.to_string_lossy().starts_with(&path))
                .count()
        }
    }
}

async fn nothing_is_left(database: &Database, tasks: usize) {
    let wait = async {
        loop {
            let left = (connections(database).await, tokio::runtime::Handle::current().metrics().num_alive_tasks());
            if left.0 == 0 && left.1 <= tasks {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok();
    let tasks_left = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(gone, "{} connections and {tasks_left} tasks are left, of {tasks}", connections(database).await);
}

async fn use_and_leave(runtime: &Runtime, n: u64) {
    runtime
        .enter(async {
            let held = listening::start(n).id(format!("held {n}")).await.unwrap();
            assert_eq!(short::start(n).await.unwrap().result().await.unwrap(), n);
            held.cancel().await.unwrap();
            // One is left running.
            listening::start(n).id(format!("left {n}")).await.unwrap();
        })
        .await;
}

everywhere! {
    async fn runtimes_that_are_dropped_leave_no_connection_and_no_task(database: Database) {
        let probe = Probe::default();
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let until = Instant::now() + Duration::from_secs(8);
        let mut built = 0_u64;
        while built < 1_000 && (Instant::now() < until || built < 10) {
            let runtime = quick(&database, &probe).build().await.unwrap();
            use_and_leave(&runtime, built).await;
            if built % 2 == 1 {
                runtime.shutdown().await;
            }
            drop(runtime);
            built += 1;
            if built.is_power_of_two() {
                nothing_is_left(&database, tasks).await;
            }
        }
        nothing_is_left(&database, tasks).await;
    }

    async fn three_hundred_steps_fit_on_the_stack(database: Database) {
        let (runtime, probe) = begin(&database).await;
        assert_eq!(runtime.enter(async { long::start(1).id("w").await.unwrap().result().await.unwrap() }).await, 2);
        assert_eq!(probe.hits("plain"), 300);
        assert_eq!(rows(&database, "SELECT count(*), max(seq) FROM workflow_steps").await, ["300|300"]);
    }

    async fn a_shutdown_hands_running_workflows_on_and_that_is_no_recovery(database: Database) {
        let probe = Probe::default();
        let one = quick(&database, &probe).cancel_grace(Duration::from_millis(100)).build().await.unwrap();
        one.enter(async { handed_on::start(5).id("w").await.unwrap() }).await;
        probe.reached("deaf", 1).await;
        one.shutdown().await;
        assert_eq!(rows(&database, "SELECT status, executor_id, recoveries FROM workflows").await, ["pending|-|0"]);
        assert_eq!(rows(&database, "SELECT status FROM executors").await, ["stopped"]);
        let two = quick(&database, &probe).build().await.unwrap();
        // Nobody asked for a recovery.
        probe.reached("deaf", 2).await;
        probe.open("deaf");
        assert_eq!(reach::<handed_on>(&two, "w").await.result().await.unwrap(), 5);
        assert_eq!(rows(&database, "SELECT status, recoveries, epoch FROM workflows").await, ["done|0|2"]);
        assert_eq!(probe.hits("plain"), 1);
    }

    async fn a_shutdown_tells_the_step_and_records_what_it_returns(database: Database) {
        let (one, probe) = begin(&database).await;
        one.enter(async { listening::start(5).id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        one.shutdown().await;
        assert_eq!(probe.hits("told"), 1);
        assert_eq!(rows(&database, "SELECT step_name FROM workflow_steps").await, ["hold"]);
        let two = quick(&database, &probe).build().await.unwrap();
        assert_eq!(reach::<listening>(&two, "w").await.result().await.unwrap(), 5);
        assert_eq!((probe.hits("hold"), probe.hits("plain")), (1, 1));
    }

    async fn many_restarts_while_a_step_waits_are_no_recoveries(database: Database) {
        let probe = Probe::default();
        let mut runtime = quick(&database, &probe).max_recoveries(3).cancel_grace(Duration::ZERO).build().await.unwrap();
        runtime.enter(async { handed_on::start(5).id("w").await.unwrap() }).await;
        for restart in 1..=25 {
            probe.reached("deaf", restart).await;
            runtime.shutdown().await;
            runtime = quick(&database, &probe).max_recoveries(3).cancel_grace(Duration::ZERO).build().await.unwrap();
        }
        probe.open("deaf");
        assert_eq!(reach::<handed_on>(&runtime, "w").await.result().await.unwrap(), 5);
        assert_eq!(rows(&database, "SELECT status, recoveries FROM workflows").await, ["done|0"]);
        assert_eq!(probe.hits("plain"), 1);
    }

    async fn recoveries_without_progress_end_as_dead(database: Database) {
        let probe = Probe::default();
        let build = || quick(&database, &probe).max_recoveries(2).build();
        let mut runtime = build().await.unwrap();
        runtime.enter(async { handed_on::start(5).id("w").await.unwrap() }).await;
        // The first ownership recorded a step, so it counts from the loss of that one on.
        for crash in 1..=2 {
            probe.reached("deaf", crash).await;
            drop(runtime);
            runtime = build().await.unwrap();
            runtime.recover().await.unwrap();
            rows_become(&database, "SELECT status, recoveries FROM workflows", &[&format!("running|{crash}")]).await;
        }
        probe.reached("deaf", 3).await;
        drop(runtime);
        runtime = build().await.unwrap();
        runtime.recover().await.unwrap();
        becomes(&reach::<handed_on>(&runtime, "w").await, WorkflowStatus::Dead).await;
        assert_eq!(rows(&database, "SELECT status, reason FROM workflows").await, ["dead|recoveries"]);
        assert_eq!((probe.hits("deaf"), probe.hits("plain")), (3, 1));
    }

    async fn a_recovery_says_what_it_found(database: Database) {
        let (one, probe) = begin(&database).await;
        one.enter(async { handed_on::start(5).id("w").await.unwrap() }).await;
        probe.reached("deaf", 1).await;
        drop(one);
        let two = quick(&database, &probe).build().await.unwrap();
        let recovered = two.recover().await.unwrap();
        assert_eq!(recovered.to_string(), "recovered 1 workflow, 1 step already recorded");
        assert_eq!(recovered.ids, ["w"]);
    }

    async fn a_living_owner_keeps_what_it_runs(database: Database) {
        let (one, probe) = begin(&database).await;
        one.enter(async { handed_on::start(5).id("w").await.unwrap() }).await;
        probe.reached("deaf", 1).await;
        for _ in 0..3 {
            let other = recovered(&database, &probe).await;
            other.shutdown().await;
        }
        assert_eq!(rows(&database, "SELECT status, epoch FROM workflows").await, ["running|1"]);
        probe.open("deaf");
        assert_eq!(reach::<handed_on>(&one, "w").await.result().await.unwrap(), 5);
        assert_eq!(probe.hits("deaf"), 1);
    }

    async fn a_step_that_keeps_its_thread_is_not_taken_over(database: Database) {
        let probe = Probe::default();
        let lease = Duration::from_millis(1_500);
        let owner = {
            let builder = quick(&database, &probe).lease(lease);
            std::thread::spawn(move || {
                // Nothing else runs on this thread while the step burns.
                let alone = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                alone.block_on(async {
                    let runtime = builder.build().await.unwrap();
                    let milliseconds = runtime.enter(async { busy::start(4_000).id("w").await.unwrap().result().await.unwrap() }).await;
                    runtime.shutdown().await;
                    milliseconds
                })
            })
        };
        probe.reached("burning", 1).await;
        let other = quick(&database, &probe).lease(lease).build().await.unwrap();
        while !owner.is_finished() {
            other.recover().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(owner.join().unwrap(), 4_000);
        assert_eq!(probe.hits("burning"), 1);
        assert_eq!(rows(&database, "SELECT status, epoch, recoveries FROM workflows").await, ["done|1|0"]);
    }

    async fn what_waited_before_the_start_is_claimed(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.shutdown().await;
        insert_pending(&database, "w", "short", Some(r#"{"n":3}"#)).await;
        let next = quick(&database, &probe).build().await.unwrap();
        assert_eq!(reach::<short>(&next, "w").await.result().await.unwrap(), 3);
    }
}

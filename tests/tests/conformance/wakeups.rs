//! Wake-ups: how an executor hears of work that another process leaves, and that it needs none of it.

use std::time::{Duration, Instant};

use durable::{Client, QueueLimits, WorkflowStatus, workflow};
use durable_tests::{Database, everywhere, on_both_stores};

use crate::support::{Probe, becomes, execute, probe, quick, rows};

/// A heartbeat so rare that what starts within the time of a test did not wait for one.
const RARE: Duration = Duration::from_secs(120);

#[workflow(queue = "wakeups")]
async fn woken(word: String) -> String {
    probe().hit("woken");
    word
}

#[workflow]
async fn without_room() -> u32 {
    probe().gate("busy").await;
    1
}

async fn client(database: &Database) -> Client {
    quick(database, &Probe::default()).client().await.unwrap()
}

// Not behind a pooler, where nothing can be heard.
on_both_stores! {
    async fn an_idle_executor_is_woken_by_the_enqueue_of_another_process(database: Database) {
        let probe = Probe::default();
        let builder = quick(&database, &probe).heartbeat(RARE).grace(RARE * 3).lease(RARE * 4);
        let runtime = builder.build().await.unwrap();
        let client = client(&database).await;
        for n in 0..5 {
            let begun = Instant::now();
            client.start(woken::start(n.to_string())).await.unwrap().result().await.unwrap();
            assert!(begun.elapsed() < RARE / 4, "it was found by a heartbeat");
        }
        // A short delay is told as well: nobody looks in between.
        let later = client.start(woken::start("later".to_owned()).delay(Duration::from_millis(150))).await.unwrap();
        becomes(&later, WorkflowStatus::Done).await;
        // And what one end sets free.
        let first = client.start(woken::start("first".to_owned()).delay(Duration::from_millis(100))).await.unwrap();
        let second = client.start(woken::start("second".to_owned()).after([&first])).await.unwrap();
        becomes(&second, WorkflowStatus::Done).await;
        runtime.shutdown().await;
    }
}

everywhere! {
    async fn what_a_rate_holds_back_and_what_falls_due_one_after_the_other_waits_for_no_heartbeat(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().rate(2, Duration::from_millis(200));
        let builder = quick(&database, &probe).queue("rated", limits).heartbeat(RARE).grace(RARE * 3).lease(RARE * 4);
        let runtime = builder.build().await.unwrap();
        let begun = Instant::now();
        let rated = (0..8).map(|n| woken::start(format!("rated {n}")).queue("rated"));
        // Over before anybody looks again.
        runtime.client().set_queue("brief", QueueLimits::new().rate(1, Duration::from_millis(1))).await.unwrap();
        let brief = (0..4).map(|n| woken::start(format!("brief {n}")).queue("brief"));
        let delayed = (1..6).map(|n| woken::start(format!("later {n}")).delay(Duration::from_millis(n * 90)));
        let runs = runtime.enter(durable::start_many(rated.chain(brief).chain(delayed))).await.unwrap();
        for run in runs {
            run.result().await.unwrap();
        }
        assert!(begun.elapsed() < RARE / 4, "a heartbeat was needed");
        runtime.shutdown().await;
    }

    async fn without_listening_work_is_found_with_the_next_heartbeat(database: Database) {
        let probe = Probe::default();
        let runtime = quick(&database, &probe).listen(false).build().await.unwrap();
        let client = client(&database).await;
        for n in 0..3 {
            client.start(woken::start(n.to_string())).await.unwrap().result().await.unwrap();
        }
        let later = client.start(woken::start("later".to_owned()).delay(Duration::from_millis(150))).await.unwrap();
        later.result().await.unwrap();
        runtime.shutdown().await;
    }
}

/// A session that was ended hears nothing until it has another: what was said meanwhile is found all the same.
#[test]
fn an_executor_whose_session_was_ended_listens_again() {
    durable_tests::run::postgres(ended_sessions);
}

async fn ended_sessions(database: Database) {
    let probe = Probe::default();
    let runtime = quick(&database, &probe).heartbeat(RARE).grace(RARE * 3).lease(RARE * 4).build().await.unwrap();
    let client = client(&database).await;
    let listening = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'
                     OR datname = current_database() AND query LIKE '-- Heartbeat%'";
    for n in 0..5 {
        let before = rows(&database, listening).await;
        assert!(!before.is_empty(), "nobody listens");
        for pid in before {
            execute(&database, &format!("SELECT pg_terminate_backend({pid})")).await;
        }
        let begun = Instant::now();
        client.start(woken::start(n.to_string())).await.unwrap().result().await.unwrap();
        assert!(begun.elapsed() < RARE / 4, "it was found by a heartbeat");
    }
    runtime.shutdown().await;
}

/// A read is asked again when its session is ended under it.
#[test]
fn a_result_is_read_while_sessions_are_ended() {
    durable_tests::run::postgres(read_through_kills);
}

async fn read_through_kills(database: Database) {
    let runtime = quick(&database, &Probe::default()).build().await.unwrap();
    let run = runtime.enter(async { woken::start("word".to_owned()).await.unwrap() }).await;
    let killer = async {
        for _ in 0..100 {
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
            execute(&database, sql).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reader = async {
        loop {
            assert_eq!(run.result().await.unwrap(), "word");
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = killer => {}
        () = reader => {}
    }
    runtime.shutdown().await;
}

/// What has fallen due and can't be claimed here is not asked for over and over.
#[test]
fn an_executor_without_room_and_a_process_that_only_submits_do_not_spin() {
    durable_tests::run::postgres(quiet_without_room);
}

async fn quiet_without_room(database: Database) {
    let name = rows(&database, "SELECT current_database()").await.remove(0);
    execute(&database, &format!("ALTER DATABASE {name} SET track_functions = 'all'")).await;
    let count = "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname IN ('look', 'claim')";
    let probe = Probe::default();
    let slow = || quick(&database, &probe).heartbeat(Duration::from_secs(1)).grace(Duration::from_secs(3));
    let full = slow().max_running(1).build().await.unwrap();
    let submitter = slow().queues::<String>([]).build().await.unwrap();
    let held = full.enter(async { without_room::start().await.unwrap() }).await;
    becomes(&held, WorkflowStatus::Running).await;
    let client = submitter.client();
    client.start(woken::start("due".to_owned()).delay(Duration::from_millis(100))).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let calls = async || rows(&database, count).await[0].parse::<i64>().unwrap();
    let before = calls().await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let during = calls().await - before;
    // Two processes, one beat a second each, and what the statistics were behind with.
    assert!(during < 40, "{during} looks and claims in four seconds");
    probe.open("busy");
    full.shutdown().await;
    submitter.shutdown().await;
}

//! Limits of queues: over executors, in any window, for each partition; through crashes, backlogs and rows removed by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use durable::{ErrorKind, QueueLimits, Start, WorkflowStatus, workflow};
use durable_tests::{Database, Store, everywhere};
use sqlx::{Connection, PgConnection};

use crate::support::{Probe, becomes, begin, execute, insert_pending, probe, quick, recovered, rows, rows_become};

#[workflow]
async fn limited_held(word: String) -> String {
    probe().note(&word);
    probe().gate("held").await;
    word
}

#[workflow]
async fn limited_brief(word: String) -> String {
    probe().note(format!("+{word}"));
    tokio::time::sleep(Duration::from_millis(3)).await;
    probe().note(format!("-{word}"));
    word
}

fn held_in(queue: &str, word: impl ToString) -> Start<limited_held> {
    limited_held::start(word.to_string()).id(word.to_string()).queue(queue)
}

fn short_in(queue: &str, word: impl ToString) -> Start<limited_brief> {
    limited_brief::start(word.to_string()).id(word.to_string()).queue(queue)
}

const RUNNING: &str = "SELECT count(*) FROM workflows WHERE status = 'running'";
const PENDING: &str = "SELECT count(*) FROM workflows WHERE status = 'pending'";
const OPEN: &str = "SELECT count(*) FROM workflows WHERE status <> 'done'";

/// When runs started, in order, in milliseconds; of one partition if it is named.
async fn starts(database: &Database, partition: Option<&str>) -> Vec<f64> {
    let column = match database.store() {
        Store::Sqlite => "started_at / 1000.0",
        Store::Postgres => "extract(epoch FROM started_at) * 1000",
    };
    let of = partition.map_or_else(String::new, |key| format!("AND partition_key = '{key}'"));
    let sql = format!("SELECT {column} FROM workflows WHERE started_at IS NOT NULL {of} ORDER BY started_at");
    rows(database, &sql).await.iter().map(|ms| ms.parse().unwrap()).collect()
}

/// Any `count + 1` starts in a row are a window apart. A claim counts from a moment before it writes the start.
fn assert_rate(starts: &[f64], count: usize, window: f64) {
    for (first, last) in starts.iter().zip(starts.iter().skip(count)) {
        assert!(
            last - first > window - 200.0,
            "{count} in {window} ms: {:?}",
            starts.iter().map(|ms| ms - starts[0]).collect::<Vec<_>>()
        );
    }
}

/// The most that ran at once, by the notes of `limited_brief`.
fn most_at_once(notes: &[String], of: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for note in notes {
        match note.split_at(1) {
            ("+", word) if word.starts_with(of) => now += 1,
            ("-", word) if word.starts_with(of) => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

everywhere! {
    async fn each_executor_keeps_its_own_limit(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().executor_concurrency(2);
        let one = quick(&database, &probe).queue("q", limits.clone()).build().await.unwrap();
        let two = quick(&database, &probe).queue("q", limits).build().await.unwrap();
        one.client().start_many((0..10).map(|n| held_in("q", n))).await.unwrap();
        probe.reached("held", 4).await;
        one.recover().await.unwrap();
        two.recover().await.unwrap();
        let shares = "SELECT count(*) FROM workflows WHERE status = 'running' GROUP BY executor_id";
        assert_eq!(rows(&database, shares).await, ["2", "2"]);
        probe.open("held");
        rows_become(&database, OPEN, &["0"]).await;
        one.shutdown().await;
        two.shutdown().await;
    }

    async fn two_executors_that_compete_never_run_more_than_the_limit(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().concurrency(3).partition_concurrency(2);
        let one = quick(&database, &probe).queue("q", limits.clone()).build().await.unwrap();
        let two = quick(&database, &probe).queue("q", limits).build().await.unwrap();
        let starts = (0..90).map(|n| short_in("q", format!("{}.{n}", n % 3)).partition_key((n % 3).to_string()));
        one.client().start_many(starts).await.unwrap();
        rows_become(&database, OPEN, &["0"]).await;
        let notes = probe.notes();
        assert_eq!((notes.len(), most_at_once(&notes, "")), (180, 3));
        for key in ["0.", "1.", "2."] {
            assert!(most_at_once(&notes, key) <= 2, "{notes:?}");
        }
        one.shutdown().await;
        two.shutdown().await;
    }

    async fn a_limited_queue_is_worked_through_without_waiting_for_heartbeats(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().concurrency(1);
        let patient = quick(&database, &probe).queue("q", limits).grace(Duration::from_secs(40)).lease(Duration::from_secs(60))
            .heartbeat(Duration::from_secs(20));
        let runtime = patient.build().await.unwrap();
        let begun = Instant::now();
        runtime.client().start_many((0..30).map(|n| short_in("q", n))).await.unwrap();
        rows_become(&database, OPEN, &["0"]).await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        runtime.shutdown().await;
    }

    async fn a_rate_holds_in_any_window(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().rate(4, Duration::from_secs(1));
        let one = quick(&database, &probe).queue("q", limits.clone()).build().await.unwrap();
        let two = quick(&database, &probe).queue("q", limits).build().await.unwrap();
        // Two now, and the rest in the middle of the window: it slides, it does not begin anew.
        one.client().start_many((0..2).map(|n| short_in("q", n))).await.unwrap();
        rows_become(&database, OPEN, &["0"]).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        two.client().start_many((2..14).map(|n| short_in("q", n))).await.unwrap();
        rows_become(&database, OPEN, &["0"]).await;
        let starts = starts(&database, None).await;
        assert_eq!(starts.len(), 14);
        assert_rate(&starts, 4, 1_000.0);
        // And it is used: three windows and a bit, with a beat in between.
        assert!(starts[13] - starts[0] < 6_000.0, "{starts:?}");
        one.shutdown().await;
        two.shutdown().await;
    }

    async fn each_partition_has_its_own_limits(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().partition_concurrency(3).partition_executor_concurrency(2);
        let one = quick(&database, &probe).queue("q", limits.clone()).build().await.unwrap();
        let two = quick(&database, &probe).queue("q", limits).build().await.unwrap();
        let keyed = (0..12).map(|n| held_in("q", n).partition_key(if n % 2 == 0 { "it's" } else { "a\\" }));
        one.client().start_many(keyed.chain((12..15).map(|n| held_in("q", n)))).await.unwrap();
        probe.reached("held", 9).await;
        one.recover().await.unwrap();
        two.recover().await.unwrap();
        // Without a key nothing is limited by one.
        let counts = "SELECT coalesce(partition_key, 'none'), count(*) FROM workflows WHERE status = 'running' GROUP BY 1 ORDER BY 1";
        assert_eq!(rows(&database, counts).await, ["a\\|3", "it's|3", "none|3"]);
        let shares = "SELECT max(n) FROM (SELECT count(*) AS n FROM workflows WHERE status = 'running' AND partition_key IS NOT NULL
                      GROUP BY executor_id, partition_key) c";
        assert_eq!(rows(&database, shares).await, ["2"]);
        probe.open("held");
        rows_become(&database, OPEN, &["0"]).await;
        one.shutdown().await;
        two.shutdown().await;
    }

    async fn each_partition_has_its_own_rate(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().partition_rate(2, Duration::from_secs(1));
        let one = quick(&database, &probe).queue("q", limits.clone()).build().await.unwrap();
        let two = quick(&database, &probe).queue("q", limits).build().await.unwrap();
        one.client().start_many((0..12).map(|n| short_in("q", n).partition_key(["a", "b"][n % 2]))).await.unwrap();
        rows_become(&database, OPEN, &["0"]).await;
        for key in ["a", "b"] {
            let starts = starts(&database, Some(key)).await;
            assert_eq!(starts.len(), 6);
            assert_rate(&starts, 2, 1_000.0);
        }
        // Side by side, not one after the other.
        let all = starts(&database, None).await;
        assert!(all[11] - all[0] < 4_500.0, "{all:?}");
        one.shutdown().await;
        two.shutdown().await;
    }

    async fn a_crashed_executor_gives_its_slots_back_with_its_work(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().concurrency(2).partition_concurrency(1);
        let first = quick(&database, &probe).queue("q", limits.clone()).build().await.unwrap();
        let client = quick(&database, &probe).client().await.unwrap();
        client.start_many((0..6).map(|n| held_in("q", n).partition_key((n % 3).to_string()))).await.unwrap();
        probe.reached("held", 2).await;
        drop(first);
        let next = recovered(&database, &probe).await;
        // As long as it has them, they are taken; then what it ran comes first.
        probe.reached("held", 4).await;
        next.recover().await.unwrap();
        let mut again = probe.notes().split_off(2);
        again.sort();
        assert_eq!(again, ["0", "1"]);
        assert_eq!(rows(&database, RUNNING).await, ["2"]);
        probe.open("held");
        rows_become(&database, OPEN, &["0"]).await;
        next.shutdown().await;
    }

    async fn what_is_removed_by_hand_holds_no_slot(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().concurrency(1).partition_concurrency(1);
        let runtime = quick(&database, &probe).queue("q", limits).build().await.unwrap();
        let client = runtime.client();
        let running = client.start(held_in("q", "running").partition_key("p")).await.unwrap();
        becomes(&running, WorkflowStatus::Running).await;
        client.start(held_in("q", "pending").partition_key("p")).await.unwrap();
        client.start(held_in("q", "waiting").partition_key("p").delay(Duration::from_secs(3600))).await.unwrap();
        let last = client.start(held_in("q", "last").partition_key("p").priority(9)).await.unwrap();
        execute(&database, "DELETE FROM workflows WHERE workflow_id <> 'last'").await;
        becomes(&last, WorkflowStatus::Running).await;
        probe.open("held");
        last.result().await.unwrap();
        let info = client.queue("q").await.unwrap().unwrap();
        assert_eq!((info.pending, info.waiting, info.running), (0, 0, 0));
        runtime.shutdown().await;
    }

    async fn limits_that_can_not_be_followed_are_refused(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let (fine, year) = (Duration::from_secs(1), Duration::from_secs(367 * 86_400));
        let limits = QueueLimits::new;
        let wrong = [
            limits().concurrency(0), limits().executor_concurrency(0), limits().partition_concurrency(0),
            limits().partition_executor_concurrency(0), limits().rate(0, fine), limits().partition_rate(0, fine),
            limits().concurrency(u32::MAX), limits().rate(1 << 31, fine), limits().partition_concurrency(u32::MAX),
            limits().rate(1, Duration::ZERO), limits().rate(1, Duration::from_micros(999)), limits().rate(1, year),
            limits().partition_rate(1, Duration::MAX), limits().partition_rate(1, Duration::ZERO),
        ];
        for wrong in wrong {
            let error = client.set_queue("q", wrong.clone()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{wrong:?}");
            assert!(error.to_string().contains("queue `q`"), "{error}");
            let error = quick(&database, &Probe::default()).queue("q", wrong.clone()).build().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{wrong:?}");
        }
        assert_eq!(client.queue("q").await.unwrap(), None);
        let most = limits().concurrency(i32::MAX as u32).rate(i32::MAX as u32, Duration::from_secs(366 * 86_400));
        client.set_queue("q", most.clone()).await.unwrap();
        assert_eq!(client.queue("q").await.unwrap().unwrap().limits, most);
    }

    async fn a_busy_partition_with_a_long_backlog_holds_up_no_other(database: Database) {
        let probe = Probe::default();
        let client = quick(&database, &probe).client().await.unwrap();
        client.set_queue("q", QueueLimits::new().partition_concurrency(1)).await.unwrap();
        client.start_many((0..5_000).map(|n| held_in("q", n).partition_key("busy"))).await.unwrap();
        let runtime = quick(&database, &probe).build().await.unwrap();
        probe.reached("held", 1).await;
        let begun = Instant::now();
        let free = client.start_many((0..10).map(|n| short_in("q", format!("f{n}")).partition_key(n.to_string()))).await.unwrap();
        for run in free {
            run.result().await.unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!((rows(&database, RUNNING).await, rows(&database, PENDING).await), (vec!["1".to_owned()], vec!["4999".to_owned()]));
        assert_eq!(probe.hits("held"), 1);
        runtime.shutdown().await;
    }

    async fn a_long_queue_starves_no_short_one(database: Database) {
        for most in [1, 2] {
            let probe = Probe::default();
            let client = quick(&database, &probe).client().await.unwrap();
            for queue in ["a long one", "short", "z long one"] {
                client.set_queue(queue, QueueLimits::new()).await.unwrap();
            }
            let long = (0..2_000).map(|n| short_in(if n % 2 == 0 { "a long one" } else { "z long one" }, format!("{most}l{n}")));
            client.start_many(long).await.unwrap();
            let brief = client.start_many((0..5).map(|n| short_in("short", format!("{most}s{n}")))).await.unwrap();
            let runtime = quick(&database, &probe).max_running(most).build().await.unwrap();
            for run in brief {
                run.result().await.unwrap();
            }
            let before = probe.notes().len() / 2;
            assert!(before < 60, "{before} ran before the five, {most} at a time");
            execute(&database, "DELETE FROM workflows WHERE status = 'pending'").await;
            runtime.shutdown().await;
        }
    }

    async fn work_that_nobody_here_knows_holds_up_nothing(database: Database) {
        let (runtime, _) = begin(&database).await;
        let client = runtime.client();
        client.set_queue("q", QueueLimits::new().concurrency(2)).await.unwrap();
        client.set_queue("p", QueueLimits::new().partition_concurrency(1)).await.unwrap();
        for queue in ["q", "p", "default"] {
            for n in 0..30 {
                let id = format!("{queue} unknown {n}");
                insert_pending(&database, &id, "nobody_has_this", Some("{}")).await;
                execute(&database, &format!("UPDATE workflows SET queue = '{queue}', priority = -5, partition_key = 'k'
                    WHERE workflow_id = '{id}'")).await;
            }
        }
        let runs = ["q", "p", "default"].map(|queue| short_in(queue, queue).partition_key("k"));
        for run in client.start_many(runs).await.unwrap() {
            run.result().await.unwrap();
        }
        assert_eq!(rows(&database, PENDING).await, ["90"]);
        runtime.shutdown().await;
    }

    async fn work_without_a_queue_keeps_the_limits_of_default(database: Database) {
        let probe = Probe::default();
        let runtime = quick(&database, &probe).queue("default", QueueLimits::new().concurrency(1)).build().await.unwrap();
        let client = runtime.client();
        let runs = runtime.enter(async {
            let mut runs = Vec::new();
            for n in 0..3 {
                runs.push(limited_held::start(n.to_string()).id(n.to_string()).await.unwrap());
            }
            runs
        }).await;
        probe.reached("held", 1).await;
        runtime.recover().await.unwrap();
        assert_eq!((probe.hits("held"), rows(&database, RUNNING).await), (1, vec!["1".to_owned()]));
        client.set_queue("default", QueueLimits::new()).await.unwrap();
        probe.reached("held", 3).await;
        probe.open("held");
        for run in runs {
            run.result().await.unwrap();
        }
        // Set while the program runs, it counts from the next heartbeat on.
        client.pause_queue("default").await.unwrap();
        runtime.recover().await.unwrap();
        runtime.recover().await.unwrap();
        let paused = runtime.enter(async { limited_held::start("p".to_owned()).id("p").await.unwrap() }).await;
        runtime.recover().await.unwrap();
        assert_eq!(paused.status().await.unwrap(), WorkflowStatus::Pending);
        client.resume_queue("default").await.unwrap();
        paused.result().await.unwrap();
        runtime.shutdown().await;
    }

    async fn urgent_work_of_a_crashed_executor_runs_before_what_waits(database: Database) {
        let probe = Probe::default();
        let first = quick(&database, &probe).max_running(1).build().await.unwrap();
        let client = quick(&database, &probe).client().await.unwrap();
        client.set_queue("q", QueueLimits::new()).await.unwrap();
        let urgent = client.start(held_in("q", "urgent").priority(1)).await.unwrap();
        becomes(&urgent, WorkflowStatus::Running).await;
        client.start_many((0..5).map(|n| held_in("q", n).priority(9))).await.unwrap();
        drop(first);
        // One that runs something until the dead one is found.
        let next = quick(&database, &probe).max_running(1).queues(["other"]).build().await.unwrap();
        next.recover().await.unwrap();
        next.shutdown().await;
        let last = quick(&database, &probe).max_running(1).build().await.unwrap();
        probe.reached("held", 2).await;
        assert_eq!(probe.notes(), ["urgent", "urgent"]);
        probe.open("held");
        rows_become(&database, OPEN, &["0"]).await;
        last.shutdown().await;
    }

    async fn more_partitions_than_a_claim_looks_at_all_have_their_turn(database: Database) {
        let probe = Probe::default();
        let client = quick(&database, &probe).client().await.unwrap();
        client.set_queue("q", QueueLimits::new().partition_concurrency(1)).await.unwrap();
        let starts = (0..3_000).map(|n| short_in("q", n).partition_key((n % 1_500).to_string()));
        client.start_many(starts).await.unwrap();
        let runtime = quick(&database, &probe).max_running(100).build().await.unwrap();
        rows_become(&database, OPEN, &["0"]).await;
        let notes = probe.notes();
        let first: BTreeSet<&String> = notes.iter().filter(|note| note.starts_with('+')).take(1_500).collect();
        let keys: BTreeMap<usize, usize> = first.iter().map(|note| (note[1..].parse::<usize>().unwrap() % 1_500, 0)).collect();
        assert!(keys.len() > 700, "{}", keys.len());
        runtime.shutdown().await;
    }
}

/// What one claim of the executor that is alive reads of the table, undone.
async fn rows_read_by_a_claim(database: &Database) -> u64 {
    // With the settings of the engine's sessions.
    let lines = rows(database, "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
        SET enable_mergejoin = off; BEGIN;
        SELECT count(*) FROM durable.claim((SELECT executor_id FROM durable.executors WHERE status = 'alive'), 0, 1, NULL,
            ARRAY['limited_held', 'limited_brief'], ARRAY[1, 1], 100, 10, false, 0);
        SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'workflows';
        ROLLBACK").await;
    lines.last().unwrap().parse().unwrap()
}

#[test]
fn a_claim_does_not_read_the_backlog_of_a_busy_partition() {
    durable_tests::run::postgres(backlog_is_not_read);
}

async fn backlog_is_not_read(database: Database) {
    let probe = Probe::default();
    let client = quick(&database, &probe).client().await.unwrap();
    client.set_queue("q", QueueLimits::new().partition_concurrency(1)).await.unwrap();
    client.start_many((0..5_000).map(|n| held_in("q", n).partition_key("busy"))).await.unwrap();
    let runtime = quick(&database, &probe).build().await.unwrap();
    probe.reached("held", 1).await;
    execute(&database, "VACUUM ANALYZE workflows").await;
    let read = rows_read_by_a_claim(&database).await;
    assert!(read < 200, "{read} rows");
    client
        .start_many(
            (0..10)
                .map(|n| held_in("q", format!("free {n}")).partition_key(n.to_string()).delay(Duration::from_secs(9))),
        )
        .await
        .unwrap();
    let read = rows_read_by_a_claim(&database).await;
    assert!(read < 400, "{read} rows");
    runtime.shutdown().await;
}

/// The claim of one waits for the lock of another queue, while this one gets its limit.
#[test]
fn a_limit_that_is_set_while_a_claim_waits_holds_for_that_claim() {
    durable_tests::run::postgres(limit_meanwhile);
}

async fn limit_meanwhile(database: Database) {
    let probe = Probe::default();
    let one = quick(&database, &probe).queues(["q", "other"]).build().await.unwrap();
    let two = quick(&database, &probe).queues(["q"]).build().await.unwrap();
    let client = quick(&database, &probe).client().await.unwrap();
    client.set_queue("other", QueueLimits::new().concurrency(1)).await.unwrap();
    let mut holder = PgConnection::connect(database.direct_url()).await.unwrap();
    for round in 0..6 {
        client.set_queue("q", QueueLimits::new()).await.unwrap();
        client.pause_queue("q").await.unwrap();
        client.start(held_in("other", format!("other {round}"))).await.unwrap();
        let mut tx = holder.begin().await.unwrap();
        sqlx::raw_sql("SELECT 1 FROM durable.queues WHERE name = 'other' FOR UPDATE").execute(&mut *tx).await.unwrap();
        client.start_many((0..4).map(|n| held_in("q", format!("{round} {n}")))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.set_queue("q", QueueLimits::new().concurrency(1)).await.unwrap();
        client.resume_queue("q").await.unwrap();
        tx.commit().await.unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
        let running = rows(&database, "SELECT count(*) FROM workflows WHERE status = 'running' AND queue = 'q'").await;
        assert_eq!(running, ["1"], "round {round}");
        probe.open("held");
        rows_become(&database, OPEN, &["0"]).await;
        probe.close("held");
    }
    one.shutdown().await;
    two.shutdown().await;
}

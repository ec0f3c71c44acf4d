//! Runs that wait for each other: chains, diamonds, fans, and what becomes of those behind one that did not end well.

use std::time::{Duration, Instant};

use durable::{ErrorKind, WorkflowStatus, workflow};
use durable_tests::everywhere;
use futures_util::future::join_all;

use crate::support::{Probe, becomes, begin, probe, quick, recovered, rows, rows_become};

#[workflow]
async fn node(word: String) -> String {
    probe().note(&word);
    if probe().is_open("nodes are held") {
        probe().gate("node").await;
    }
    word
}

#[workflow]
async fn broken_node(word: String) -> Result<String, String> {
    Err(format!("{word} broke"))
}

#[workflow]
async fn suicidal_node() -> u32 {
    probe().gate("suicidal node").await;
    1
}

fn named(id: &str) -> durable::Start<node> {
    node::start(id.to_owned()).id(id)
}

const STATES: &str = "SELECT workflow_id, status, reason, error_message FROM workflows ORDER BY submission";

everywhere! {
    async fn the_links_of_a_start_that_was_left_out_are_not_those_of_the_run_that_has_its_id(database: Database) {
        let (runtime, _) = begin(&database).await;
        let client = runtime.client();
        client.pause_queue("default").await.unwrap();
        let gone = client.start(named("gone")).await.unwrap();
        gone.cancel().await.unwrap();
        let open = client.start(named("open")).await.unwrap();
        let twice = |id: &'static str| [named(id), named(id)];
        let [first, second] = twice("a");
        client.start_many([first, second.after([&gone])]).await.unwrap();
        let [first, second] = twice("b");
        client.start_many([first.after_ended([&gone]), second.after([&open])]).await.unwrap();
        let sql = "SELECT workflow_id, status, awaiting FROM workflows WHERE workflow_id IN ('a', 'b') ORDER BY 1";
        assert_eq!(rows(&database, sql).await, ["a|pending|0", "b|pending|0"]);
        let links = "SELECT workflow_id, prerequisite_id FROM workflow_dependencies";
        assert_eq!(rows(&database, links).await, ["b|gone"]);
        runtime.shutdown().await;
    }

    async fn a_run_starts_once_all_that_it_waits_for_are_done(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("nodes are held");
        let client = runtime.client();
        let a = client.start(named("a")).await.unwrap();
        let b = client.start(named("b")).await.unwrap();
        let last = client.start(named("last").after([&a, &"b"])).await.unwrap();
        becomes(&b, WorkflowStatus::Running).await;
        runtime.recover().await.unwrap();
        assert_eq!(rows(&database, "SELECT status, reason, awaiting FROM workflows WHERE workflow_id = 'last'").await,
            ["waiting|after|2"]);
        probe.open("node");
        last.result().await.unwrap();
        assert_eq!(probe.notes().last().unwrap(), "last");
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflows w WHERE workflow_id = 'last' AND started_at >=
            (SELECT max(completed_at) FROM workflows WHERE workflow_id <> 'last')").await, ["last"]);
        runtime.shutdown().await;
    }

    async fn a_run_behind_one_that_was_not_done_is_cancelled_and_says_why(database: Database) {
        let (runtime, _) = begin(&database).await;
        let client = runtime.client();
        let bad = client.start(broken_node::start("bad".to_owned()).id("bad").delay(Duration::from_millis(200))).await.unwrap();
        let next = client.start(named("next").after([&bad])).await.unwrap();
        let last = client.start(named("last").after([&next])).await.unwrap();
        let error = next.result().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(error.to_string().contains("it was to run after `bad`, which is failed"), "{error}");
        assert_eq!(last.result().await.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(rows(&database, STATES).await, [
            "bad|failed|-|bad broke",
            "next|cancelled|after|it was to run after `bad`, which is failed",
            "last|cancelled|after|it was to run after `next`, which is cancelled",
        ]);
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflows WHERE completed_at IS NULL").await, [""; 0]);
        runtime.shutdown().await;
    }

    async fn a_run_after_the_end_of_others_does_not_mind_how_they_ended(database: Database) {
        let (runtime, _) = begin(&database).await;
        let client = runtime.client();
        let bad = client.start(broken_node::start("bad".to_owned()).id("bad")).await.unwrap();
        let cut = client.start(named("cut").delay(Duration::from_secs(3600))).await.unwrap();
        let last = client.start(named("last").after_ended([&bad, &cut])).await.unwrap();
        let listed = client.start(named("listed").after_all_ended(["bad", "cut", "last"])).await.unwrap();
        assert_eq!(last.status().await.unwrap(), WorkflowStatus::Waiting);
        cut.cancel().await.unwrap();
        assert_eq!(last.result().await.unwrap(), "last");
        assert_eq!(listed.result().await.unwrap(), "listed");
        runtime.shutdown().await;
    }

    async fn prerequisites_that_ended_before_count_as_they_ended(database: Database) {
        let (runtime, _) = begin(&database).await;
        let client = runtime.client();
        let good = client.start(named("good")).await.unwrap();
        let bad = client.start(broken_node::start("bad".to_owned()).id("bad")).await.unwrap();
        good.result().await.unwrap();
        bad.result().await.unwrap().unwrap_err();
        assert_eq!(client.start(named("on")).await.unwrap().id(), "on");
        client.start(named("a").after([&good])).await.unwrap().result().await.unwrap();
        client.start(named("b").after([&good]).after_ended([&bad])).await.unwrap().result().await.unwrap();
        let c = client.start(named("c").after([&good, &bad])).await.unwrap();
        assert_eq!(c.status().await.unwrap(), WorkflowStatus::Cancelled);
        // In one batch: behind one that is cancelled at once.
        let runs = client.start_many([named("e").after(["d".to_owned()].each_ref().map(|id| id as &dyn durable::RunId)),
            named("d").after([&bad])]).await.unwrap();
        assert_eq!(runs[0].status().await.unwrap(), WorkflowStatus::Cancelled);
        assert_eq!(rows(&database, "SELECT workflow_id, error_message FROM workflows WHERE status = 'cancelled'
            ORDER BY workflow_id").await, [
            "c|it was to run after `bad`, which is failed",
            "d|it was to run after `bad`, which is failed",
            "e|it was to run after `d`, which is cancelled",
        ]);
        runtime.shutdown().await;
    }

    async fn the_stricter_word_counts_for_a_prerequisite_that_is_named_twice(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let a = client.start(named("a")).await.unwrap();
        let one = client.start(named("one").after([&a]).after_ended([&a])).await.unwrap();
        let two = client.start(named("two").after_ended([&a]).after([&a])).await.unwrap();
        let three = client.start(named("three").after_ended([&a]).after_all_ended([&a])).await.unwrap();
        a.cancel().await.unwrap();
        assert_eq!(one.status().await.unwrap(), WorkflowStatus::Cancelled);
        assert_eq!(two.status().await.unwrap(), WorkflowStatus::Cancelled);
        assert_eq!(three.status().await.unwrap(), WorkflowStatus::Pending);
    }

    async fn an_unknown_prerequisite_is_refused_and_nothing_is_recorded(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let error = client.start(named("a").after([&"nobody"])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("`nobody`"), "{error}");
        let batch = [named("a"), named("b").after([&"a"]), named("c").after_ended([&"a", &"nobody"])];
        assert_eq!(client.start_many(batch).await.unwrap_err().kind(), ErrorKind::NotFound);
        let by_name = client.enqueue("node", serde_json::json!({ "word": "x" })).after_all(["nobody"]);
        assert_eq!(by_name.await.unwrap_err().kind(), ErrorKind::NotFound);
        for table in ["workflows", "workflow_payloads", "workflow_dependencies"] {
            assert_eq!(rows(&database, &format!("SELECT count(*) FROM {table}")).await, ["0"], "{table}");
        }
    }

    async fn itself_and_circles_are_refused_and_nothing_is_recorded(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let error = client.start(named("a").after([&"a"])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        let circle = [named("a").after([&"c"]), named("b").after([&"a"]), named("c").after_ended([&"b"]), named("d")];
        let error = client.start_many(circle).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("`a` after `c` after `b` after `a`"), "{error}");
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows").await, ["0"]);
        // A recorded run gets no other prerequisites: there is no way to close a circle later.
        client.start(named("a")).await.unwrap();
        client.start(named("b").after([&"a"])).await.unwrap();
        let again = client.start(named("a").after([&"b"])).await.unwrap();
        assert_eq!(again.status().await.unwrap(), WorkflowStatus::Pending);
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflow_dependencies").await, ["b"]);
    }

    async fn a_diamond_runs_from_its_top_to_its_foot(database: Database) {
        let (runtime, probe) = begin(&database).await;
        // In the order of nobody's need.
        let starts = [named("foot").after([&"left", &"right"]), named("left").after([&"top"]), named("right").after([&"top"]), named("top")];
        let runs = runtime.enter(async { durable::start_many(starts).await.unwrap() }).await;
        runs[0].result().await.unwrap();
        let notes = probe.notes();
        assert_eq!((notes.len(), notes[0].as_str(), notes[3].as_str()), (4, "top", "foot"));
        runtime.shutdown().await;
    }

    async fn a_chain_of_two_thousand_goes_with_its_first(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let id = |n: usize| format!("{n:04}");
        let chain = (0..2_000).map(|n| match n {
            0 => named(&id(0)),
            n => named(&id(n)).after([&id(n - 1)]),
        });
        let runs = client.start_many(chain).await.unwrap();
        let begun = Instant::now();
        runs[0].cancel().await.unwrap();
        let taken = begun.elapsed();
        assert_eq!(runs[1_999].status().await.unwrap(), WorkflowStatus::Cancelled);
        assert_eq!(rows(&database, "SELECT status, count(*) FROM workflows GROUP BY status").await, ["cancelled|2000"]);
        assert!(taken < Duration::from_secs(15), "{taken:?}");
    }

    async fn a_thousand_fan_out_and_in(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let middle: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        let starts = middle.iter().map(|id| named(id).after([&"source"]));
        let all = [named("source")].into_iter().chain(starts).chain([named("sink").after_all(&middle)]);
        let runs = runtime.client().start_many(all).await.unwrap();
        runs.last().unwrap().result().await.unwrap();
        let notes = probe.notes();
        assert_eq!((notes.len(), notes[0].as_str(), notes[1_001].as_str()), (1_002, "source", "sink"));
        runtime.shutdown().await;
    }

    async fn a_prerequisite_that_dies_takes_its_dependents_along(database: Database) {
        let probe = Probe::default();
        let first = quick(&database, &probe).max_recoveries(0).build().await.unwrap();
        let client = quick(&database, &probe).client().await.unwrap();
        let dies = client.start(suicidal_node::start().id("dies")).await.unwrap();
        let strict = client.start(named("strict").after([&dies])).await.unwrap();
        let tolerant = client.start(named("tolerant").after_ended([&dies])).await.unwrap();
        becomes(&dies, WorkflowStatus::Running).await;
        drop(first);
        let next = quick(&database, &probe).max_recoveries(0).build().await.unwrap();
        next.recover().await.unwrap();
        assert_eq!(tolerant.result().await.unwrap(), "tolerant");
        assert_eq!(dies.status().await.unwrap(), WorkflowStatus::Dead);
        assert!(strict.result().await.unwrap_err().to_string().contains("`dies`, which is dead"));
        next.shutdown().await;
    }

    async fn a_prerequisite_that_is_cancelled_while_it_runs_takes_its_dependents_along(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("nodes are held");
        let client = runtime.client();
        let a = client.start(named("a")).await.unwrap();
        becomes(&a, WorkflowStatus::Running).await;
        let b = client.start(named("b").after([&a])).await.unwrap();
        a.cancel().await.unwrap();
        assert_eq!(b.status().await.unwrap(), WorkflowStatus::Cancelled);
        // Resumed, both run: the dependent is no longer bound.
        probe.open("node");
        b.resume().await.unwrap();
        b.result().await.unwrap();
        a.resume().await.unwrap();
        a.result().await.unwrap();
        runtime.shutdown().await;
    }

    async fn a_dependent_of_a_crashed_executor_s_work_still_waits(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("nodes are held");
        let client = quick(&database, &probe).client().await.unwrap();
        let a = client.start(named("a")).await.unwrap();
        let b = client.start(named("b").after([&a])).await.unwrap();
        becomes(&a, WorkflowStatus::Running).await;
        drop(runtime);
        let next = recovered(&database, &probe).await;
        assert_eq!(b.status().await.unwrap(), WorkflowStatus::Waiting);
        probe.open("node");
        b.result().await.unwrap();
        assert_eq!(probe.notes(), ["a", "a", "b"]);
        next.shutdown().await;
    }

    async fn ends_at_the_same_time_on_two_executors_count_once_each(database: Database) {
        let probe = Probe::default();
        let one = quick(&database, &probe).executor_name("one").max_running(40).build().await.unwrap();
        let two = quick(&database, &probe).executor_name("two").max_running(40).build().await.unwrap();
        let client = one.client();
        let mut runs = Vec::new();
        for round in 0..60 {
            let id = |part: &str| format!("{round} {part}");
            let starts = [named(&id("sink")).after([&id("l"), &id("r"), &id("m")]), named(&id("l")), named(&id("r")), named(&id("m"))];
            runs.push(client.start_many(starts).await.unwrap().remove(0));
        }
        for run in join_all(runs.iter().map(|run| run.result())).await {
            run.unwrap();
        }
        assert_eq!(rows(&database, "SELECT DISTINCT status, awaiting FROM workflows").await, ["done|0"]);
        assert_eq!(probe.notes().len(), 240);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_dependencies WHERE ended_as IS NULL").await, ["0"]);
        one.shutdown().await;
        two.shutdown().await;
    }

    async fn links_made_while_their_prerequisites_end_are_never_lost(database: Database) {
        let (runtime, _) = begin(&database).await;
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let mut sinks = Vec::new();
        for round in 0..60 {
            let ids: Vec<String> = (0..3).map(|n| format!("{round} {n}")).collect();
            client.start_many(ids.iter().map(|id| named(id))).await.unwrap();
            sinks.push(client.start(named(&format!("{round} sink")).after_all(&ids)).await.unwrap());
        }
        for run in join_all(sinks.iter().map(|run| run.result())).await {
            run.unwrap();
        }
        runtime.shutdown().await;
    }

    async fn a_delay_counts_beside_the_prerequisites(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("nodes are held");
        let client = runtime.client();
        let a = client.start(named("a")).await.unwrap();
        let late = client.start(named("late").after([&a]).delay(Duration::from_millis(1_200))).await.unwrap();
        let soon = client.start(named("soon").after([&a]).delay(Duration::from_millis(1))).await.unwrap();
        becomes(&a, WorkflowStatus::Running).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        // Due, and still behind `a`.
        assert_eq!(soon.status().await.unwrap(), WorkflowStatus::Waiting);
        probe.open("node");
        soon.result().await.unwrap();
        rows_become(&database, "SELECT status, reason FROM workflows WHERE workflow_id = 'late'", &["waiting|delay"]).await;
        late.result().await.unwrap();
        assert!(rows(&database, "SELECT workflow_id FROM workflows WHERE started_at < wake_at").await.is_empty());
        runtime.shutdown().await;
    }
}

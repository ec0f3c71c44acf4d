//! Attempts of workflows: what is recorded is not run again, what failed is, and the last failure makes a dead letter.

use std::time::Duration;

use durable::{ErrorKind, Failure, QueueLimits, Requeue, WorkflowStatus, step, workflow};
use durable_tests::everywhere;

use crate::support::{Probe, becomes, begin, probe, quick, reach, recovered, rows, rows_become};

#[step]
async fn try_prepare() -> u32 {
    probe().hit("prepare");
    7
}

#[step]
async fn try_deliver(failures: usize) -> Result<usize, String> {
    let attempt = probe().hit("deliver");
    if attempt > failures || probe().is_open("fixed") { Ok(attempt) } else { Err(format!("no luck {attempt}")) }
}

#[workflow(retry(max_attempts = 3, initial = "1ms", factor = 1, max = "1ms"))]
async fn tried(failures: usize) -> Result<usize, String> {
    try_prepare().await;
    try_deliver(failures).await
}

#[workflow(queue = "tries", retry(max_attempts = 2, initial = "1ms", max = "1ms"))]
async fn tried_in_queue(failures: usize) -> Result<usize, String> {
    try_deliver(failures).await
}

#[workflow(retry(max_attempts = 5, initial = "1ms", max = "1ms"))]
async fn tried_in_vain() -> anyhow::Result<()> {
    probe().hit("in vain");
    Err(anyhow::Error::from(Failure::permanent("there is no such account")).context("transfer"))
}

#[workflow(retry(max_attempts = 3, initial = "1ms", max = "1ms"))]
async fn tried_and_panics(panics: usize) -> u32 {
    let prepared = try_prepare().await;
    assert!(probe().hit("panics") > panics, "out of cheese");
    prepared
}

#[step]
async fn tries_and_waits() {
    probe().gate("attempt").await;
}

#[workflow(retry(max_attempts = 2, initial = "400ms", factor = 1, max = "400ms", jitter = false))]
async fn tried_slowly() -> Result<(), String> {
    if probe().hit("slowly") > 1 {
        tries_and_waits().await;
    }
    Err("not yet".to_owned())
}

#[workflow(retry(max_attempts = 9, initial = "365d", factor = 1000, max = "106000000d", jitter = false))]
async fn tried_next_year() -> Result<(), String> {
    Err("not this year".to_owned())
}

#[workflow(retry(max_attempts = 9, initial = "106751991d", max = "106751991d", jitter = false))]
async fn tried_at_the_end_of_time() -> Result<(), String> {
    Err("not in this world".to_owned())
}

const STATE: &str = "SELECT status, reason, attempts, error_message FROM workflows";

everywhere! {
    async fn recorded_steps_are_not_run_again_and_the_failed_one_is(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { tried::start(2).id("w").await.unwrap() }).await;
        // Waits through the attempts.
        assert_eq!(run.result().await.unwrap(), Ok(3));
        assert_eq!((probe.hits("prepare"), probe.hits("deliver")), (1, 3));
        assert_eq!(rows(&database, STATE).await, ["done|-|3|-"]);
        assert_eq!(rows(&database, "SELECT step_name, status FROM workflow_steps ORDER BY step_index").await,
            ["try_prepare|done", "try_deliver|done"]);
        // The errors in between are set aside, not lost.
        let aside = "SELECT step_name, status, error_message FROM workflow_step_attempts ORDER BY attempt";
        let aside = rows(&database, aside).await;
        assert!(aside.iter().any(|row| row.contains("no luck 1")) && aside.iter().any(|row| row.contains("no luck 2")), "{aside:?}");
        assert_eq!(runtime.enter(tried(0)).await, Ok(4));
        runtime.shutdown().await;
    }

    async fn what_ran_out_of_attempts_is_a_dead_letter(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let client = quick(&database, &probe).client().await.unwrap();
        let run = runtime.enter(async { tried::start(usize::MAX).id("w").await.unwrap() }).await;
        let here = run.result().await.unwrap_err();
        assert_eq!(rows(&database, STATE).await, ["dead|attempts|3|no luck 3"]);
        assert_eq!(probe.hits("deliver"), 3);
        // It is the same from wherever one asks.
        let elsewhere = client.handle::<tried>("w").result().await.unwrap_err();
        for error in [here, elsewhere, run.result().await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Dead);
            assert!(error.to_string().contains("no luck 3"), "{error}");
        }
        // A plain call gives its own error.
        assert_eq!(runtime.enter(tried(usize::MAX)).await, Err("no luck 6".to_owned()));
        assert_eq!(runtime.enter(tried_in_queue(usize::MAX)).await, Err("no luck 8".to_owned()));
        runtime.shutdown().await;
    }

    async fn a_permanent_failure_ends_it_at_once(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { tried_in_vain::start().await.unwrap() }).await;
        let error = run.result().await.unwrap().unwrap_err();
        assert!(format!("{error:#}").contains("there is no such account"), "{error:#}");
        assert_eq!(probe.hits("in vain"), 1);
        assert_eq!(rows(&database, "SELECT status, reason, attempts FROM workflows").await, ["failed|-|1"]);
        runtime.shutdown().await;
    }

    async fn a_panic_is_tried_again(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let good = runtime.enter(async { tried_and_panics::start(2).id("good").await.unwrap() }).await;
        assert_eq!(good.result().await.unwrap(), 7);
        assert_eq!((probe.hits("panics"), probe.hits("prepare")), (3, 1));
        let bad = runtime.enter(async { tried_and_panics::start(usize::MAX).id("bad").await.unwrap() }).await;
        assert_eq!(bad.result().await.unwrap_err().kind(), ErrorKind::Dead);
        let state = "SELECT status, reason, attempts FROM workflows ORDER BY submission";
        assert_eq!(rows(&database, state).await, ["done|-|3", "dead|attempts|3"]);
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflows WHERE error_message LIKE '%out of cheese%'").await, ["bad"]);
        runtime.shutdown().await;
    }

    async fn a_crash_during_the_pause_keeps_the_count(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { tried_slowly::start().id("w").await.unwrap() }).await;
        becomes(&run, WorkflowStatus::Waiting).await;
        assert_eq!(rows(&database, STATE).await, ["waiting|retry|2|not yet"]);
        drop(runtime);
        probe.open("attempt");
        let next = recovered(&database, &probe).await;
        let error = reach::<tried_slowly>(&next, "w").await.result().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dead);
        assert_eq!(probe.hits("slowly"), 2);
        // The pause was not cut short either.
        assert_eq!(rows(&database, "SELECT attempts, recoveries FROM workflows WHERE updated_at >= wake_at").await, ["2|0"]);
        next.shutdown().await;
    }

    async fn a_crash_during_an_attempt_is_no_attempt(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { tried_slowly::start().id("w").await.unwrap() }).await;
        probe.reached("attempt", 1).await;
        drop(run);
        drop(runtime);
        let next = recovered(&database, &probe).await;
        probe.reached("attempt", 2).await;
        assert_eq!(rows(&database, "SELECT status, attempts, recoveries FROM workflows").await, ["running|2|1"]);
        probe.open("attempt");
        assert_eq!(reach::<tried_slowly>(&next, "w").await.result().await.unwrap_err().kind(), ErrorKind::Dead);
        assert_eq!(rows(&database, "SELECT status, reason, attempts FROM workflows").await, ["dead|attempts|2"]);
        next.shutdown().await;
    }

    async fn a_run_that_waits_for_its_next_attempt_can_be_cancelled(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { tried_next_year::start().id("w").await.unwrap() }).await;
        becomes(&run, WorkflowStatus::Waiting).await;
        run.cancel().await.unwrap();
        assert_eq!(run.result().await.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(probe.hits("slowly"), 0);
        runtime.shutdown().await;
    }

    async fn a_pause_of_any_length_is_kept(database: Database) {
        let (runtime, _) = begin(&database).await;
        let (year, end) = runtime.enter(async {
            (tried_next_year::start().id("year").await.unwrap(), tried_at_the_end_of_time::start().id("end").await.unwrap())
        }).await;
        becomes(&year, WorkflowStatus::Waiting).await;
        becomes(&end, WorkflowStatus::Waiting).await;
        // Nobody stumbles over it: other work goes on, with a heartbeat in between.
        runtime.recover().await.unwrap();
        assert_eq!(runtime.enter(tried(0)).await, Ok(1));
        assert_eq!(year.status().await.unwrap(), WorkflowStatus::Waiting);
        runtime.shutdown().await;
    }

    async fn a_dead_letter_is_requeued_with_all_its_attempts(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let client = runtime.client();
        let run = client.start(tried::start(usize::MAX).id("w")).await.unwrap();
        run.result().await.unwrap_err();
        assert_eq!(client.requeue(Requeue::id("w")).await.unwrap(), 1);
        becomes(&run, WorkflowStatus::Dead).await;
        rows_become(&database, "SELECT status, attempts, error_message FROM workflows", &["dead|3|no luck 6"]).await;
        probe.open("fixed");
        assert_eq!(client.requeue(Requeue::dead()).await.unwrap(), 1);
        assert_eq!(run.result().await.unwrap(), Ok(7));
        assert_eq!(probe.hits("prepare"), 1);
        assert_eq!(client.requeue(Requeue::id("w")).await.unwrap_err().kind(), ErrorKind::AlreadyEnded);
        assert_eq!(client.requeue(Requeue::id("nobody")).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(client.requeue(Requeue::dead()).await.unwrap(), 0);
        runtime.shutdown().await;
    }

    async fn a_run_that_has_not_stopped_is_not_requeued(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        client.start(tried::start(0).id("pending")).await.unwrap();
        client.start(tried::start(0).id("waiting").delay(Duration::from_secs(3600))).await.unwrap();
        for id in ["pending", "waiting"] {
            assert_eq!(client.requeue(Requeue::id(id)).await.unwrap_err().kind(), ErrorKind::Unsupported, "{id}");
        }
        let hostile = "'; DELETE FROM workflows; --";
        assert_eq!(client.requeue(Requeue::id(hostile)).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(client.requeue(Requeue::dead().name(hostile).queue(hostile).tag(hostile)).await.unwrap(), 0);
        assert_eq!(rows(&database, "SELECT status, epoch FROM workflows ORDER BY submission").await, ["pending|0", "waiting|0"]);
    }

    async fn a_filter_requeues_what_it_says_and_nothing_else(database: Database) {
        let (runtime, _) = begin(&database).await;
        let client = runtime.client();
        client.set_queue("other", QueueLimits::new()).await.unwrap();
        let plain = client.start(tried::start(usize::MAX).id("plain").tags(["red"])).await.unwrap();
        let queued = client.start(tried_in_queue::start(usize::MAX).id("queued").tags(["red", "blue"])).await.unwrap();
        let moved = client.start(tried_in_queue::start(usize::MAX).id("moved").queue("other")).await.unwrap();
        plain.result().await.unwrap_err();
        queued.result().await.unwrap_err();
        moved.result().await.unwrap_err();
        for queue in ["default", "tries", "other"] {
            client.pause_queue(queue).await.unwrap();
        }
        assert_eq!(client.requeue(Requeue::failed()).await.unwrap(), 0);
        assert_eq!(client.requeue(Requeue::dead().queue("default").name("tried_in_queue")).await.unwrap(), 0);
        assert_eq!(client.requeue(Requeue::dead().tag("blu")).await.unwrap(), 0);
        let state = "SELECT workflow_id FROM workflows WHERE status = 'pending' ORDER BY workflow_id";
        assert_eq!(client.requeue(Requeue::dead().queue("other")).await.unwrap(), 1);
        assert_eq!(rows(&database, state).await, ["moved"]);
        assert_eq!(client.requeue(Requeue::dead().name("tried_in_queue")).await.unwrap(), 1);
        assert_eq!(rows(&database, state).await, ["moved", "queued"]);
        assert_eq!(client.requeue(Requeue::dead().tag("red").queue("default")).await.unwrap(), 1);
        assert_eq!(rows(&database, state).await, ["moved", "plain", "queued"]);
        runtime.shutdown().await;
    }

    async fn more_than_a_page_is_requeued(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let runs = client.start_many((0..1_201).map(|n| tried::start(0).id(n.to_string()))).await.unwrap();
        assert_eq!(runs.len(), 1_201);
        crate::support::execute(&database, "UPDATE workflows SET status = 'cancelled'").await;
        assert_eq!(client.requeue(Requeue::cancelled().name("tried")).await.unwrap(), 1_201);
        assert_eq!(rows(&database, "SELECT status, count(*) FROM workflows GROUP BY status").await, ["pending|1201"]);
    }
}

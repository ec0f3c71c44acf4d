//! No step is recorded after an acknowledged cancel, except those in flight.

use std::time::Duration;

use durable::{ErrorKind, WorkflowStatus, step, workflow};
use durable_tests::everywhere;

use crate::support::{Probe, becomes, begin, insert_pending, probe, quick, reach, recovered, rows, rows_become};

#[step]
async fn listens(word: &str) -> anyhow::Result<String> {
    probe().hit("listens");
    durable::cancelled().await;
    probe().hit("told");
    match word {
        "fails" => anyhow::bail!("interrupted by the cancel"),
        word => Ok(word.to_owned()),
    }
}

#[step]
async fn after() {
    probe().hit("after");
}

struct Cleanup;

impl Drop for Cleanup {
    fn drop(&mut self) {
        probe().hit("cleanup");
    }
}

#[workflow]
async fn listener(word: String) -> anyhow::Result<String> {
    let _cleanup = Cleanup;
    let heard = listens(&word).await?;
    after().await;
    Ok(heard)
}

#[step]
async fn deaf() {
    let _cleanup = Cleanup;
    probe().hit("deaf");
    std::future::pending::<()>().await;
}

#[workflow]
async fn unheard() {
    deaf().await;
    after().await;
}

#[step(timeout = "20ms")]
async fn short(round: u32) -> Result<u32, String> {
    tokio::select! {
        () = durable::cancelled() => Err("cancelled".to_owned()),
        () = tokio::time::sleep(Duration::from_millis(20)) => Ok(round),
    }
}

#[workflow]
async fn racing(round: u32) -> Result<u32, String> {
    let _cleanup = Cleanup;
    probe().hit(format!("racing {round}"));
    let ended = short(round).await;
    probe().note(round);
    ended
}

#[step]
async fn quick_step(n: u32) -> u32 {
    n
}

#[workflow]
async fn brief(n: u32) -> u32 {
    quick_step(n).await
}

#[workflow]
async fn unstarted() {
    probe().hit("unstarted");
}

const STEPS: &str = "SELECT step_name, status, error_message FROM workflow_steps ORDER BY step_index";

everywhere! {
    async fn a_running_body_is_told_and_its_outcome_is_the_last_that_is_recorded(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { listener::start("heard".to_owned()).id("w").await.unwrap() }).await;
        probe.reached("listens", 1).await;
        run.cancel().await.unwrap();
        assert_eq!(run.status().await.unwrap(), WorkflowStatus::Cancelled);
        probe.told("w ended cancelled").await;
        assert_eq!(rows(&database, STEPS).await, ["listens|done|-"]);
        assert_eq!((probe.hits("told"), probe.hits("after"), probe.hits("cleanup")), (1, 0, 1));
        let error = run.result().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(rows(&database, "SELECT status, reason FROM workflows").await, ["cancelled|cancelled"]);
    }

    async fn a_cancel_from_another_process_tells_the_body_too(database: Database) {
        let (one, probe) = begin(&database).await;
        one.enter(async { listener::start("heard".to_owned()).id("w").await.unwrap() }).await;
        probe.reached("listens", 1).await;
        let two = recovered(&database, &probe).await;
        reach::<listener>(&two, "w").await.cancel().await.unwrap();
        probe.reached("told", 1).await;
        rows_become(&database, STEPS, &["listens|done|-"]).await;
        probe.told("w ended cancelled").await;
        assert_eq!(probe.hits("after"), 0);
    }

    async fn a_cancelled_workflow_stays_cancelled_when_its_step_fails_by_it(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { listener::start("fails".to_owned()).id("w").await.unwrap() }).await;
        probe.reached("listens", 1).await;
        run.cancel().await.unwrap();
        probe.told("w ended cancelled").await;
        assert_eq!(rows(&database, STEPS).await, ["listens|error|interrupted by the cancel"]);
        assert_eq!(rows(&database, "SELECT status FROM workflows").await, ["cancelled"]);
        assert_eq!(rows(&database, "SELECT part FROM workflow_payloads").await, ["input"]);
    }

    async fn a_body_that_does_not_listen_is_dropped_after_the_grace(database: Database) {
        let probe = Probe::default();
        let runtime = quick(&database, &probe).cancel_grace(Duration::from_millis(200)).build().await.unwrap();
        let run = runtime.enter(async { unheard::start().id("w").await.unwrap() }).await;
        probe.reached("deaf", 1).await;
        run.cancel().await.unwrap();
        probe.told("w ended cancelled").await;
        assert_eq!((probe.hits("cleanup"), probe.hits("after")), (1, 0));
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_steps").await, ["0"]);
    }

    async fn a_pending_workflow_is_cancelled_without_running(database: Database) {
        let probe = Probe::default();
        let runtime = quick(&database, &probe).max_running(1).build().await.unwrap();
        let (blocker, pending) = runtime.enter(async {
            let blocker = unheard::start().id("blocker").await.unwrap();
            (blocker, unstarted::start().id("pending").await.unwrap())
        }).await;
        probe.reached("deaf", 1).await;
        pending.cancel().await.unwrap();
        assert_eq!(pending.result().await.unwrap_err().kind(), ErrorKind::Cancelled);
        blocker.cancel().await.unwrap();
        runtime.recover().await.unwrap();
        assert_eq!(probe.hits("unstarted"), 0);
        assert_eq!(pending.status().await.unwrap(), WorkflowStatus::Cancelled);
    }

    async fn what_has_ended_or_never_was_cannot_be_cancelled(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { brief::start(1).id("w").await.unwrap() }).await;
        run.result().await.unwrap();
        let error = run.cancel().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyEnded);
        assert!(error.to_string().contains("`w`") && error.to_string().contains("done"), "{error}");
        assert_eq!(run.status().await.unwrap(), WorkflowStatus::Done);
        assert_eq!(reach::<brief>(&runtime, "nobody").await.cancel().await.unwrap_err().kind(), ErrorKind::NotFound);
        let cancelled = runtime.enter(async { unheard::start().id("c").await.unwrap() }).await;
        probe.reached("deaf", 1).await;
        cancelled.cancel().await.unwrap();
        assert_eq!(cancelled.cancel().await.unwrap_err().kind(), ErrorKind::AlreadyEnded);
    }

    async fn a_blocked_workflow_can_be_cancelled(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        insert_pending(&database, "w", "brief", None).await;
        runtime.recover().await.unwrap();
        let run = reach::<brief>(&runtime, "w").await;
        becomes(&run, WorkflowStatus::Blocked).await;
        run.cancel().await.unwrap();
        assert_eq!(run.status().await.unwrap(), WorkflowStatus::Cancelled);
    }

    async fn exactly_one_of_cancel_and_completion_wins(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        let (mut cancelled, mut done) = (0, 0);
        for round in 0..150_u32 {
            let run = runtime.enter(async { brief::start(round).id(format!("w{round}")).await.unwrap() }).await;
            // From before the first step until after the end.
            for _ in 0..fastrand::u32(0..60) {
                tokio::task::yield_now().await;
            }
            match run.cancel().await {
                Ok(()) => {
                    cancelled += 1;
                    assert_eq!(run.result().await.unwrap_err().kind(), ErrorKind::Cancelled);
                    assert_eq!(run.status().await.unwrap(), WorkflowStatus::Cancelled);
                }
                Err(error) => {
                    done += 1;
                    assert_eq!(error.kind(), ErrorKind::AlreadyEnded);
                    assert_eq!(run.result().await.unwrap(), round);
                    assert_eq!(run.status().await.unwrap(), WorkflowStatus::Done);
                }
            }
        }
        assert_eq!(rows(&database, "SELECT status, count(*) FROM workflows GROUP BY status ORDER BY status").await.len(),
            usize::from(cancelled > 0) + usize::from(done > 0));
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows WHERE status = 'cancelled'").await, [cancelled.to_string()]);
        // No result beside a cancel, and no done without one.
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_payloads WHERE part = 'result'").await, [done.to_string()]);
    }

    async fn completion_timeout_and_cancel_at_once_keep_their_order_and_clean_up(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let rounds = 60_u32;
        let runs = (0..rounds).map(|round| {
            let probe = probe.clone();
            tokio::spawn(runtime.enter(async move {
                let run = racing::start(round).id(format!("w{round}")).await.unwrap();
                probe.reached(&format!("racing {round}"), 1).await;
                tokio::time::sleep(Duration::from_millis(18 + u64::from(round % 5))).await;
                (run.cancel().await.is_ok(), run.result().await)
            }))
        });
        for run in runs.collect::<Vec<_>>() {
            match run.await.unwrap() {
                (true, result) => assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled),
                // Its own time limit, or its value: never the cancel that was refused.
                (false, result) => match result.unwrap() {
                    Ok(_) => {}
                    Err(error) => assert!(error.contains("longer than its timeout"), "{error}"),
                },
            }
        }
        for round in 0..rounds {
            probe.until_ended(&format!("w{round}")).await;
        }
        assert_eq!(probe.hits("cleanup"), rounds as usize);
    }
}

//! Retries, time limits and permanent errors; a failed attempt is a row of its own, so a restart goes on counting.

use durable::{Failure, step, workflow};
use durable_tests::everywhere;
use serde::{Deserialize, Serialize};

use crate::support::{begin, crash_and_recover, probe, reach, rows, rows_become};

#[step(retry(max_attempts = 4, initial = "10ms", factor = 2, max = "20ms"))]
async fn flaky(failures: usize) -> anyhow::Result<usize> {
    let attempt = probe().hit("flaky");
    anyhow::ensure!(attempt > failures, "no luck {attempt}");
    Ok(attempt)
}

#[workflow]
async fn stubborn(failures: usize) -> anyhow::Result<usize> {
    flaky(failures).await
}

#[step(retry(max_attempts = 3, initial = "700ms", factor = 1, max = "700ms"))]
async fn slow_to_retry() -> anyhow::Result<()> {
    let attempt = probe().hit("slow_to_retry");
    anyhow::bail!("no luck {attempt}")
}

#[workflow]
async fn counted() -> anyhow::Result<()> {
    slow_to_retry().await
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum Refused {
    #[error("try again")]
    Busy,
    #[error("card {0} is blocked")]
    Blocked(u32),
}

impl Refused {
    fn may_pass(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

#[step(retry(max_attempts = 5, initial = "5ms", max = "5ms", when = Refused::may_pass))]
async fn pay(card: u32) -> Result<(), Refused> {
    if probe().hit("pay") == 1 { Err(Refused::Busy) } else { Err(Refused::Blocked(card)) }
}

#[workflow]
async fn checkout(card: u32) -> Result<(), Refused> {
    pay(card).await
}

#[step(retry(max_attempts = 5, initial = "5ms", max = "5ms"))]
async fn hopeless() -> anyhow::Result<()> {
    probe().hit("hopeless");
    Err(anyhow::Error::from(Failure::permanent("there is no such account")).context("transfer"))
}

#[workflow]
async fn transfer() -> anyhow::Result<()> {
    hopeless().await
}

#[step(timeout = "50ms", retry(max_attempts = 2, initial = "5ms", max = "5ms"))]
async fn endless() -> anyhow::Result<()> {
    probe().hit("endless");
    std::future::pending().await
}

#[workflow]
async fn patient() -> anyhow::Result<()> {
    endless().await
}

#[step(timeout = "50ms")]
async fn endless_number() -> u32 {
    std::future::pending().await
}

#[workflow]
async fn patient_number() -> u32 {
    endless_number().await
}

#[step]
async fn once() -> Result<(), String> {
    probe().hit("once");
    Err("no".to_owned())
}

#[workflow]
async fn single() -> Result<(), String> {
    once().await
}

const ATTEMPTS: &str =
    "SELECT step_index, attempt, step_name, status, error_message FROM workflow_step_attempts ORDER BY attempt";

everywhere! {
    async fn a_step_is_tried_until_it_succeeds_and_each_failure_is_a_row(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { stubborn::start(2).id("w").await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap().unwrap(), 3);
        assert_eq!(probe.hits("flaky"), 3);
        assert_eq!(rows(&database, ATTEMPTS).await, ["0|1|flaky|retrying|no luck 1", "0|2|flaky|retrying|no luck 2"]);
        assert_eq!(rows(&database, "SELECT status, attempts FROM workflow_steps").await, ["done|3"]);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_step_attempts WHERE next_attempt_at >= ended_at AND ended_at >= started_at").await, ["2"]);
    }

    async fn attempts_end_with_the_last_error(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { stubborn::start(99).id("w").await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap().unwrap_err().to_string(), "no luck 4");
        assert_eq!(probe.hits("flaky"), 4);
        assert_eq!(rows(&database, "SELECT status, attempts, error_message FROM workflow_steps").await, ["error|4|no luck 4"]);
        assert_eq!(rows(&database, ATTEMPTS).await.len(), 3);
        assert_eq!(rows(&database, "SELECT status, error_message FROM workflows").await, ["failed|no luck 4"]);
    }

    async fn a_restart_goes_on_counting_attempts(database: Database) {
        let (mut runtime, probe) = begin(&database).await;
        runtime.enter(async { counted::start().id("w").await.unwrap() }).await;
        for attempt in ["1", "2"] {
            probe.told(&format!("w retry slow_to_retry {attempt} no luck {attempt}")).await;
            runtime = crash_and_recover(&database, &probe, runtime).await;
        }
        let error = reach::<counted>(&runtime, "w").await.result().await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "no luck 3");
        assert_eq!(probe.hits("slow_to_retry"), 3);
        assert_eq!(rows(&database, ATTEMPTS).await, ["0|1|slow_to_retry|retrying|no luck 1", "0|2|slow_to_retry|retrying|no luck 2"]);
        assert_eq!(rows(&database, "SELECT attempts FROM workflow_steps").await, ["3"]);
    }

    async fn the_next_attempt_is_not_earlier_than_recorded(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { counted::start().id("w").await.unwrap() }).await;
        probe.told("w retry slow_to_retry 1 no luck 1").await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        reach::<counted>(&next, "w").await.result().await.unwrap().unwrap_err();
        // Each attempt began when the one before allowed it, whatever happened in between.
        let early = "SELECT count(*) FROM workflow_step_attempts a JOIN workflow_step_attempts b
                     ON b.attempt = a.attempt + 1 AND b.started_at < a.next_attempt_at";
        assert_eq!(rows(&database, early).await, ["0"]);
        let early = "SELECT count(*) FROM workflow_step_attempts a JOIN workflow_steps s
                     ON a.attempt = 2 AND s.started_at < a.next_attempt_at";
        assert_eq!(rows(&database, early).await, ["0"]);
    }

    async fn an_error_that_when_refuses_stops_at_once(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { checkout::start(17).id("w").await.unwrap() }).await;
        assert!(matches!(run.result().await.unwrap(), Err(Refused::Blocked(17))));
        assert_eq!(probe.hits("pay"), 2);
        assert_eq!(rows(&database, ATTEMPTS).await, ["0|1|pay|retrying|try again"]);
        assert_eq!(rows(&database, "SELECT attempts, error_message FROM workflow_steps").await, ["2|card 17 is blocked"]);
    }

    async fn a_permanent_failure_stops_at_once(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { transfer::start().id("w").await.unwrap() }).await;
        let error = run.result().await.unwrap().unwrap_err();
        assert_eq!(format!("{error:#}"), "transfer: there is no such account");
        assert_eq!(probe.hits("hopeless"), 1);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_step_attempts").await, ["0"]);
    }

    async fn an_attempt_ends_with_its_timeout(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { patient::start().id("w").await.unwrap() }).await;
        let error = run.result().await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "step `endless` ran longer than its timeout of 50ms");
        assert_eq!(error.downcast_ref::<Failure>().unwrap().kind(), durable::FailureKind::Timeout);
        assert_eq!(probe.hits("endless"), 2);
        assert_eq!(rows(&database, ATTEMPTS).await, ["0|1|endless|retrying|step `endless` ran longer than its timeout of 50ms"]);
    }

    async fn a_timeout_that_the_type_cannot_express_fails_the_workflow(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        let run = runtime.enter(async { patient_number::start().id("w").await.unwrap() }).await;
        let error = run.result().await.unwrap_err();
        assert_eq!(error.kind(), durable::ErrorKind::Failed);
        assert!(error.to_string().contains("step `endless_number` ran longer than its timeout of 50ms"), "{error}");
        assert_eq!(rows(&database, "SELECT status FROM workflows").await, ["failed"]);
        assert_eq!(rows(&database, "SELECT status, step_name FROM workflow_steps").await, ["error|endless_number"]);
    }

    async fn without_retry_a_step_runs_once(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { single::start().id("w").await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap().unwrap_err(), "no");
        assert_eq!(probe.hits("once"), 1);
    }

    async fn a_body_that_runs_for_a_while_is_seen_as_running(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { long_running::start().id("w").await.unwrap() }).await;
        let progress = "SELECT step_name, status, attempt FROM workflow_step_progress";
        rows_become(&database, progress, &["long|running|1"]).await;
        probe.open("long");
        run.result().await.unwrap();
        assert_eq!(rows(&database, progress).await, ["long|done|1"]);
    }
}

#[step]
async fn long() {
    probe().gate("long").await;
}

#[workflow]
async fn long_running() {
    long().await;
}

//! `llm_pipeline(doc).await`: a plain call of a workflow is a durable run; under `plain` nothing is recorded.

use durable::{ErrorKind, FailureKind, step, workflow};
use durable_tests::everywhere;

use crate::support::{Probe, begin, crash_and_recover, probe, reach, rows, rows_become};

#[step]
async fn double(n: u32) -> u32 {
    probe().hit("double");
    n * 2
}

#[workflow]
async fn twice(n: u32) -> anyhow::Result<u32> {
    let doubled = double(n).await;
    probe().note(durable::workflow_id());
    probe().gate("twice").await;
    Ok(doubled)
}

#[workflow]
async fn plain_number() -> u32 {
    probe().gate("plain_number").await;
    1
}

everywhere! {
    async fn a_plain_call_is_a_durable_run_with_a_fresh_id(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("twice");
        let (one, two) = runtime.enter(async { (twice(1).await.unwrap(), twice(2).await.unwrap()) }).await;
        assert_eq!((one, two), (2, 4));
        let ids = rows(&database, "SELECT workflow_id FROM workflows WHERE status = 'done' ORDER BY submission").await;
        assert_eq!(ids, probe.notes());
        assert_eq!(ids.len(), 2);
        assert_ne!(ids[0], ids[1]);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_steps WHERE step_name = 'double'").await, ["2"]);
    }

    async fn dropping_a_plain_call_does_not_cancel_the_run(database: Database) {
        let (runtime, probe) = begin(&database).await;
        {
            let mut call = std::pin::pin!(runtime.enter(async { twice(1).await }));
            tokio::select! {
                _ = &mut call => panic!("the gate is closed"),
                () = probe.reached("twice", 1) => {}
            }
        }
        probe.open("twice");
        rows_become(&database, "SELECT status FROM workflows", &["done"]).await;
    }

    async fn a_dropped_plain_call_goes_on_after_a_crash(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let call = tokio::spawn(runtime.enter(async { twice(21).await }));
        probe.reached("twice", 1).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        call.await.unwrap().unwrap_err();
        probe.open("twice");
        let id = probe.notes()[0].clone();
        assert_eq!(reach::<twice>(&next, &id).await.result().await.unwrap().unwrap(), 42);
        assert_eq!(probe.hits("double"), 1);
    }

    async fn a_cancelled_plain_call_is_the_callers_own_error(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let call = tokio::spawn(runtime.enter(async { twice(1).await }));
        probe.reached("twice", 1).await;
        let id = probe.notes()[0].clone();
        reach::<twice>(&runtime, &id).await.cancel().await.unwrap();
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.downcast_ref::<durable::Failure>().unwrap().kind(), FailureKind::Workflow);
        assert!(error.to_string().contains("was cancelled"), "{error}");
    }

    async fn a_plain_call_that_cannot_say_so_panics_naming_result(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let call = tokio::spawn(runtime.enter(async { plain_number().await }));
        probe.reached("plain_number", 1).await;
        let id = rows(&database, "SELECT workflow_id FROM workflows").await.remove(0);
        reach::<plain_number>(&runtime, &id).await.cancel().await.unwrap();
        let panic = call.await.unwrap_err().into_panic();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("workflow `plain_number` ended without a value") && text.contains("plain_call.rs:"), "{text}");
        assert!(text.contains("`start(..)`") && text.contains("`result()`"), "{text}");
    }

    async fn under_plain_nothing_is_recorded_even_with_a_runtime(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("twice");
        assert_eq!(runtime.enter(durable::plain(async { twice(4).await.unwrap() })).await, 8);
        assert_eq!(runtime.enter(durable::plain(async { double(4).await })).await, 8);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows").await, ["0"]);
        assert_eq!(probe.hits("double"), 2);
    }

    async fn a_call_after_the_shutdown_is_refused(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        runtime.shutdown().await;
        let error = runtime.enter(async { twice::start(1).await.unwrap_err() }).await;
        assert_eq!(error.kind(), ErrorKind::ShuttingDown);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows").await, ["0"]);
    }
}

#[step(retry(max_attempts = 9, initial = "1h", factor = 1, max = "1h"))]
async fn fails_plainly(probe: &Probe) -> Result<(), String> {
    probe.hit("plain");
    Err("no".to_owned())
}

#[tokio::test]
async fn without_a_runtime_a_step_is_an_ordinary_function() {
    let probe = Probe::default();
    // As written: no retry hides an error from a unit test, and none makes it wait.
    assert_eq!(fails_plainly(&probe).await.unwrap_err(), "no");
    assert_eq!(probe.hits("plain"), 1);
}

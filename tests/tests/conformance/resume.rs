//! A new workflow attempt: what is recorded stays, the error that ended the run is tried again, counts begin at zero.

use durable::{ErrorKind, WorkflowStatus, step, workflow};
use durable_tests::everywhere;

use crate::support::{Probe, becomes, begin, probe, quick, reach, rows};

#[step]
async fn fine() -> u32 {
    probe().hit("fine");
    1
}

#[step]
async fn handled() -> Result<u32, String> {
    probe().hit("handled");
    Err("handled".to_owned())
}

#[step(retry(max_attempts = 2, initial = "1ms", max = "1ms"))]
async fn last() -> Result<u32, String> {
    let attempt = probe().hit("last");
    if probe().is_open("fixed") { Ok(3) } else { Err(format!("broken {attempt}")) }
}

#[workflow]
async fn three() -> Result<u32, String> {
    let one = fine().await;
    let two = handled().await.unwrap_or(2);
    Ok(one + two + last().await?)
}

#[step]
async fn arm(n: u32, works: bool) -> Result<u32, String> {
    probe().hit(format!("arm {n}"));
    if works || probe().is_open("fixed") { Ok(n) } else { Err(format!("arm {n} broke")) }
}

#[workflow]
async fn two_arms() -> Result<(u32, u32), String> {
    let (one, two) = durable::join!(arm(1, true), arm(2, false));
    Ok((one?, two?))
}

#[workflow]
async fn first_of_arms() -> Result<(u32, u32), String> {
    durable::try_join!(async { arm(1, true).await }, async { arm(2, false).await })
}

#[step]
async fn stuck() {
    probe().gate("stuck").await;
}

#[workflow]
async fn cancellable() -> u32 {
    let one = fine().await;
    stuck().await;
    one
}

const ROW: &str =
    "SELECT status, reason, error_message, attempts, recoveries, executor_id, completed_at FROM workflows";

everywhere! {
    async fn after_a_failure_only_the_error_that_ended_it_runs_again(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { three::start().id("w").await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap().unwrap_err(), "broken 2");
        assert_eq!(rows(&database, "SELECT status, epoch FROM workflows").await, ["failed|1"]);
        let before = rows(&database, "SELECT * FROM workflow_steps WHERE step_index < 2 ORDER BY step_index").await;
        probe.open("fixed");
        run.resume().await.unwrap();
        assert_eq!(run.result().await.unwrap().unwrap(), 6);
        assert_eq!((probe.hits("fine"), probe.hits("handled"), probe.hits("last")), (1, 1, 3));
        assert_eq!(rows(&database, "SELECT * FROM workflow_steps WHERE step_index < 2 ORDER BY step_index").await, before);
        assert_eq!(rows(&database, "SELECT attempt, status, error_message FROM workflow_step_attempts ORDER BY attempt").await,
            ["1|retrying|broken 1", "2|failed|broken 2"]);
        assert_eq!(rows(&database, "SELECT step_name, status, attempts, epoch FROM workflow_steps WHERE step_index = 2").await, ["last|done|3|3"]);
    }

    async fn a_new_attempt_may_use_every_retry_again(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { three::start().id("w").await.unwrap() }).await;
        for series in 1..=3 {
            run.result().await.unwrap().unwrap_err();
            assert_eq!(probe.hits("last"), 2 * series);
            run.resume().await.unwrap();
        }
        assert_eq!(run.result().await.unwrap().unwrap_err(), "broken 8");
        assert_eq!((probe.hits("fine"), probe.hits("handled")), (1, 1));
    }

    async fn counts_are_zero_and_the_epoch_is_raised(database: Database) {
        let probe = Probe::default();
        let one = quick(&database, &probe).build().await.unwrap();
        let run = one.enter(async { three::start().id("w").await.unwrap() }).await;
        run.result().await.unwrap().unwrap_err();
        // Nobody claims it after this, so that the row can be looked at.
        one.shutdown().await;
        let idle = quick(&database, &probe).max_running(1).build().await.unwrap();
        let blocker = idle.enter(async { cancellable::start().id("blocker").await.unwrap() }).await;
        probe.reached("stuck", 1).await;
        reach::<three>(&idle, "w").await.resume().await.unwrap();
        assert_eq!(rows(&database, &format!("{ROW} WHERE workflow_id = 'w'")).await, ["pending|-|-|0|0|-|-"]);
        assert_eq!(rows(&database, "SELECT epoch FROM workflows WHERE workflow_id = 'w'").await, ["2"]);
        assert_eq!(rows(&database, "SELECT part FROM workflow_payloads WHERE workflow_id = 'w'").await, ["input"]);
        probe.open("stuck");
        blocker.result().await.unwrap();
    }

    async fn an_arm_that_failed_last_runs_again_and_its_sibling_does_not(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { two_arms::start().id("w").await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap().unwrap_err(), "arm 2 broke");
        probe.open("fixed");
        run.resume().await.unwrap();
        assert_eq!(run.result().await.unwrap().unwrap(), (1, 2));
        assert_eq!((probe.hits("arm 1"), probe.hits("arm 2")), (1, 2));
    }

    async fn a_try_join_that_ended_early_is_tried_again(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { first_of_arms::start().id("w").await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap().unwrap_err(), "arm 2 broke");
        probe.open("fixed");
        run.resume().await.unwrap();
        assert_eq!(run.result().await.unwrap().unwrap(), (1, 2));
        assert_eq!(probe.hits("arm 2"), 2);
    }

    async fn a_cancelled_run_goes_on_from_its_last_step(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { cancellable::start().id("w").await.unwrap() }).await;
        probe.reached("stuck", 1).await;
        run.cancel().await.unwrap();
        run.resume().await.unwrap();
        probe.reached("stuck", 2).await;
        probe.open("stuck");
        assert_eq!(run.result().await.unwrap(), 1);
        assert_eq!((probe.hits("fine"), probe.hits("stuck")), (1, 2));
        assert_eq!(rows(&database, "SELECT step_name, epoch FROM workflow_steps ORDER BY step_index").await, ["fine|1", "stuck|3"]);
    }

    async fn a_dead_run_goes_on_from_its_last_step(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { cancellable::start().id("w").await.unwrap() }).await;
        probe.reached("stuck", 1).await;
        drop(runtime);
        let next = quick(&database, &probe).max_recoveries(0).build().await.unwrap();
        next.recover().await.unwrap();
        let run = reach::<cancellable>(&next, "w").await;
        becomes(&run, WorkflowStatus::Dead).await;
        let error = run.result().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dead);
        assert!(error.to_string().contains("executors lost with no step recorded"), "the reason is named: {error}");
        probe.open("stuck");
        run.resume().await.unwrap();
        assert_eq!(run.result().await.unwrap(), 1);
        assert_eq!((probe.hits("fine"), probe.hits("stuck")), (1, 2));
    }

    async fn only_what_has_stopped_can_be_resumed(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { cancellable::start().id("w").await.unwrap() }).await;
        probe.reached("stuck", 1).await;
        let running = run.resume().await.unwrap_err();
        assert_eq!(running.kind(), ErrorKind::Unsupported);
        assert!(running.to_string().contains("running"), "{running}");
        probe.open("stuck");
        run.result().await.unwrap();
        let done = run.resume().await.unwrap_err();
        assert_eq!(done.kind(), ErrorKind::AlreadyEnded);
        assert!(done.to_string().contains("done"), "{done}");
        assert_eq!(rows(&database, "SELECT status, epoch FROM workflows").await, ["done|1"]);
        assert_eq!(reach::<cancellable>(&runtime, "nobody").await.resume().await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

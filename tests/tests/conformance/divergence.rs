//! A workflow whose code no longer makes the recorded call is blocked, visibly, and goes on after a fix.

use durable::{ErrorKind, WorkflowStatus, step, workflow};
use durable_tests::everywhere;

use crate::support::{becomes, begin, crash_and_recover, probe, reach, rows};

#[step]
async fn first() -> u32 {
    u32::try_from(probe().hit("first")).unwrap()
}

#[step]
async fn second(n: u32) -> u32 {
    probe().hit("second");
    n + 10
}

#[step]
async fn renamed(n: u32) -> u32 {
    probe().hit("renamed");
    n + 1_000
}

#[step]
async fn inserted() -> u32 {
    probe().hit("inserted");
    100
}

#[step]
async fn third(n: u32) -> u32 {
    probe().gate("third").await;
    n
}

/// The switch stands for a deploy of other code: it is recorded nowhere.
#[workflow]
async fn renaming() -> u32 {
    let mut n = first().await;
    n = if probe().is_open("new code") { renamed(n).await } else { second(n).await };
    third(n).await
}

#[workflow]
async fn inserting() -> u32 {
    let mut n = first().await;
    if probe().is_open("new code") {
        n += inserted().await;
    }
    n = second(n).await;
    third(n).await
}

#[workflow]
async fn another_kind() -> u32 {
    if probe().is_open("new code") {
        let _ = durable::now().await;
    } else {
        first().await;
    }
    third(1).await
}

#[workflow]
async fn in_an_arm() -> u32 {
    let (n, _) =
        durable::join!(async { if probe().is_open("new code") { renamed(1).await } else { second(1).await } }, first());
    third(n).await
}

#[workflow]
async fn swallows() -> u32 {
    // Neither a time limit nor a panic handler of the program sees the divergence.
    let n = async { if probe().is_open("new code") { renamed(1).await } else { second(1).await } };
    let n = tokio::time::timeout(std::time::Duration::from_millis(300), n).await.unwrap_or(0);
    third(n).await
}

#[workflow]
async fn other_arguments() -> u32 {
    let n = second(if probe().is_open("new code") { 5 } else { 1 }).await;
    third(n).await
}

/// The message of a workflow that is blocked, without its call sites.
async fn message(database: &durable_tests::Database, id: &str) -> String {
    rows(database, &format!("SELECT error_message FROM workflows WHERE workflow_id = '{id}'")).await.remove(0)
}

everywhere! {
    async fn a_renamed_step_blocks_with_both_names_sites_index_and_neighbours(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { renaming::start().id("w").await.unwrap() }).await;
        probe.reached("third", 1).await;
        let steps = "SELECT * FROM workflow_steps ORDER BY step_index";
        let before = rows(&database, steps).await;
        probe.open("new code");
        let next = crash_and_recover(&database, &probe, runtime).await;
        let run = reach::<renaming>(&next, "w").await;
        becomes(&run, WorkflowStatus::Blocked).await;

        let text = message(&database, "w").await;
        assert!(text.starts_with("diverged at step 1: recorded is step `second` (called at "), "{text}");
        assert!(text.contains("requested is step `renamed` (called at "), "{text}");
        assert_eq!(text.matches("divergence.rs:").count(), 4, "both calls and both definitions: {text}");
        assert!(text.contains("recorded before it: step `first`"), "{text}");
        assert!(text.contains("deploy code that makes the recorded call here, then resume the workflow"), "{text}");
        let error = run.result().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Blocked);
        assert!(error.to_string().contains(&text), "{error}");

        // One attempt: sweeps and restarts leave it alone.
        next.recover().await.unwrap();
        let next = crash_and_recover(&database, &probe, next).await;
        assert_eq!(rows(&database, "SELECT status, reason, epoch, attempts FROM workflows").await, ["blocked|blocked|2|1"]);
        assert_eq!((probe.hits("renamed"), probe.hits("first"), probe.hits("third")), (0, 1, 1));
        assert_eq!(rows(&database, steps).await, before);

        probe.close("new code");
        probe.open("third");
        let run = reach::<renaming>(&next, "w").await;
        run.resume().await.unwrap();
        assert_eq!(run.result().await.unwrap(), 11);
        assert_eq!((probe.hits("first"), probe.hits("second")), (1, 1));
    }

    async fn a_step_inserted_under_a_hundred_runs_blocks_all_and_mixes_nothing(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async {
            for n in 0..100 {
                inserting::start().id(format!("w{n}")).await.unwrap();
            }
        }).await;
        probe.reached("third", 100).await;
        probe.open("new code");
        let next = crash_and_recover(&database, &probe, runtime).await;
        let runs = next.enter(async { (0..100).map(|n| durable::handle::<inserting>(format!("w{n}"))).collect::<Vec<_>>() }).await;
        for run in &runs {
            becomes(run, WorkflowStatus::Blocked).await;
        }
        assert_eq!((probe.hits("inserted"), probe.hits("first"), probe.hits("second"), probe.hits("third")), (0, 100, 100, 100));
        assert_eq!(
            rows(&database, "SELECT count(*) FROM workflows WHERE error_message LIKE 'diverged at step 1: recorded is step `second`%requested is step `inserted`%recorded before it: step `first`%'").await,
            ["100"]
        );
        probe.close("new code");
        probe.open("third");
        for run in &runs {
            run.resume().await.unwrap();
        }
        for run in &runs {
            let n: u32 = run.result().await.unwrap();
            assert!((11..=110).contains(&n), "{n}");
        }
        assert_eq!((probe.hits("first"), probe.hits("second")), (100, 100));
    }

    async fn another_kind_of_call_diverges(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { another_kind::start().id("w").await.unwrap() }).await;
        probe.reached("third", 1).await;
        probe.open("new code");
        let next = crash_and_recover(&database, &probe, runtime).await;
        becomes(&reach::<another_kind>(&next, "w").await, WorkflowStatus::Blocked).await;
        let text = message(&database, "w").await;
        assert!(text.starts_with("diverged at step 0: recorded is step `first`") && text.contains("requested is `now`"), "{text}");
    }

    async fn a_divergence_in_an_arm_names_the_branch(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { in_an_arm::start().id("w").await.unwrap() }).await;
        probe.reached("third", 1).await;
        probe.open("new code");
        let next = crash_and_recover(&database, &probe, runtime).await;
        becomes(&reach::<in_an_arm>(&next, "w").await, WorkflowStatus::Blocked).await;
        let text = message(&database, "w").await;
        assert!(text.starts_with("diverged at step 0 of branch 0.0: recorded is step `second`"), "{text}");
        assert_eq!(probe.hits("renamed"), 0);
    }

    async fn no_code_of_the_program_runs_after_a_divergence(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { swallows::start().id("w").await.unwrap() }).await;
        probe.reached("third", 1).await;
        probe.open("new code");
        let next = crash_and_recover(&database, &probe, runtime).await;
        becomes(&reach::<swallows>(&next, "w").await, WorkflowStatus::Blocked).await;
        probe.told("w ended blocked").await;
        assert_eq!((probe.hits("third"), probe.hits("renamed")), (1, 0));
    }

    async fn other_arguments_are_no_divergence(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { other_arguments::start().id("w").await.unwrap() }).await;
        probe.reached("third", 1).await;
        probe.open("new code");
        probe.open("third");
        let next = crash_and_recover(&database, &probe, runtime).await;
        assert_eq!(reach::<other_arguments>(&next, "w").await.result().await.unwrap(), 11, "the recorded value");
        assert_eq!(probe.hits("second"), 1);
    }
}

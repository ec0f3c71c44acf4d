//! A panic in user code is a recorded failure with its message and place, and nobody else notices.

use durable::{ErrorKind, FailureKind, step, workflow};
use durable_tests::everywhere;
use futures_util::future::join_all;

use crate::support::{begin, crash_and_recover, probe, reach, rows};

#[step]
async fn explode(how: &str) -> anyhow::Result<u32> {
    probe().hit("explode");
    match how {
        "text" => panic!("fixed text"),
        "string" => panic!("made {}", "text"),
        "custom" => std::panic::panic_any(vec![1, 2, 3]),
        _ => Ok(1),
    }
}

#[workflow]
async fn careful(how: String) -> anyhow::Result<String> {
    let error = explode(&how).await.unwrap_err();
    probe().note(format!("{error:#}"));
    probe().gate("careful").await;
    anyhow::ensure!(error.downcast_ref::<durable::Failure>().unwrap().kind() == FailureKind::Panic, "no panic");
    Ok(error.to_string())
}

#[step(retry(max_attempts = 3, initial = "1ms", max = "1ms"))]
async fn explode_twice() -> Result<usize, String> {
    let attempt = probe().hit("twice");
    assert!(attempt > 2, "attempt {attempt}");
    Ok(attempt)
}

#[workflow]
async fn survivor() -> Result<usize, String> {
    explode_twice().await
}

#[step]
async fn explode_plainly() -> u32 {
    panic!("nowhere to go")
}

#[workflow]
async fn plainly() -> u32 {
    explode_plainly().await
}

#[workflow]
async fn exploding_body(how: String) -> anyhow::Result<u32> {
    match how.as_str() {
        "text" => panic!("body text"),
        "string" => panic!("body {}", "string"),
        _ => std::panic::panic_any(17_u8),
    }
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        probe().hit("dropped");
        panic!("and again on the way out");
    }
}

#[step]
async fn wait() {
    probe().gate("wait").await;
}

#[workflow]
async fn exploding_drop() {
    let _guard = Guard;
    wait().await;
}

#[workflow]
async fn quiet(number: u32) -> anyhow::Result<u32> {
    Ok(number + explode("no").await?)
}

everywhere! {
    async fn a_panicking_step_is_an_error_with_message_and_place(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let cases = [("text", "fixed text"), ("string", "made text"), ("custom", "a payload that is no text")];
        for (how, _) in cases {
            runtime.enter(async { careful::start(how.to_owned()).id(how).await.unwrap() }).await;
        }
        probe.reached("careful", 3).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("careful");
        for (how, words) in cases {
            let message = reach::<careful>(&next, how).await.result().await.unwrap().unwrap();
            assert!(message.starts_with("step `explode` panicked at ") && message.contains("panics.rs:"), "{message}");
            assert!(message.ends_with(&format!(": {words}")), "{message}");
            let row = format!("SELECT status, error_message FROM workflow_steps WHERE workflow_id = '{how}'");
            assert_eq!(rows(&database, &row).await, [format!("error|{message}")]);
        }
        assert_eq!(probe.hits("explode"), 3, "a recorded panic does not happen again");
        let mut notes = probe.notes();
        notes.sort();
        assert_eq!(notes.len(), 6);
        assert!(notes.chunks(2).all(|pair| pair[0] == pair[1]), "{notes:?}");
    }

    async fn a_panic_is_retried_like_an_error(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { survivor::start().id("w").await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap().unwrap(), 3);
        assert_eq!(probe.hits("twice"), 3);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_step_attempts WHERE error_message LIKE '%panicked at%: attempt%'").await, ["2"]);
    }

    async fn a_panic_that_the_type_cannot_express_fails_the_workflow(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        let run = runtime.enter(async { plainly::start().id("w").await.unwrap() }).await;
        let error = run.result().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.to_string().ends_with(": nowhere to go"), "{error}");
        assert_eq!(rows(&database, "SELECT status FROM workflows").await, ["failed"]);
    }

    async fn panics_leave_a_hundred_others_alone(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let quiet_runs = runtime.enter(async {
            join_all((0..100).map(|n| async move { quiet::start(n).await.unwrap() })).await
        }).await;
        let loud = runtime.enter(async {
            let mut runs = Vec::new();
            for how in ["text", "string", "custom"] {
                runs.push(exploding_body::start(how.to_owned()).id(how).await.unwrap());
            }
            runs
        }).await;
        for (run, words) in loud.iter().zip(["body text", "body string", "a payload that is no text"]) {
            let message = run.result().await.unwrap().unwrap_err().to_string();
            assert!(message.starts_with("workflow `exploding_body` panicked at ") && message.contains("panics.rs:"), "{message}");
            assert!(message.ends_with(&format!(": {words}")), "{message}");
        }
        for (n, run) in quiet_runs.iter().enumerate() {
            assert_eq!(run.result().await.unwrap().unwrap() as usize, n + 1);
        }
        assert_eq!(probe.hits("explode"), 100);
        assert_eq!(rows(&database, "SELECT status, count(*) FROM workflows GROUP BY status ORDER BY status").await, ["done|100", "failed|3"]);
    }

    async fn a_panic_while_a_cancelled_body_is_dropped_is_contained(database: Database) {
        let probe = crate::support::Probe::default();
        let runtime = crate::support::quick(&database, &probe).cancel_grace(std::time::Duration::ZERO).build().await.unwrap();
        let run = runtime.enter(async { exploding_drop::start().id("w").await.unwrap() }).await;
        probe.reached("wait", 1).await;
        run.cancel().await.unwrap();
        probe.told("w ended cancelled").await;
        assert_eq!(probe.hits("dropped"), 1);
        let after = runtime.enter(async { quiet::start(1).await.unwrap() }).await;
        assert_eq!(after.result().await.unwrap().unwrap(), 2);
    }
}

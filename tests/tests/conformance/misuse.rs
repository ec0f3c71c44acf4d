//! A durable call where it can't be recorded panics and names the way out; it never runs silently unrecorded.

use durable::{ErrorKind, FailureKind, step, workflow};
use durable_tests::everywhere;

use crate::support::{begin, probe, rows};

#[step]
async fn leaf(word: &'static str) -> String {
    probe().hit("leaf");
    word.to_owned()
}

#[step]
async fn nests() -> anyhow::Result<String> {
    Ok(leaf("inner").await)
}

#[workflow]
async fn step_in_step() -> anyhow::Result<String> {
    nests().await
}

#[workflow]
async fn spawns() -> String {
    match tokio::spawn(leaf("spawned")).await {
        Ok(word) => word,
        Err(error) => panic_text(error),
    }
}

#[workflow]
async fn child() -> anyhow::Result<u32> {
    probe().hit("child");
    Ok(1)
}

#[workflow]
async fn plain_child() -> u32 {
    1
}

#[workflow]
async fn parent() -> anyhow::Result<String> {
    let called = child().await.unwrap_err();
    assert_eq!(called.downcast_ref::<durable::Failure>().map(durable::Failure::kind), Some(FailureKind::Unsupported));
    let started = child::start().await.unwrap_err();
    assert_eq!(started.kind(), ErrorKind::Unsupported);
    Ok(format!("{called} | {started}"))
}

#[workflow]
async fn parent_of_plain() -> u32 {
    plain_child().await
}

#[step]
async fn starts_in_step() -> anyhow::Result<u32> {
    child().await
}

#[workflow]
async fn parent_in_step() -> anyhow::Result<u32> {
    starts_in_step().await
}

#[workflow]
async fn asks_outside_of_a_step() -> String {
    durable::idempotency_key()
}

fn panic_text(error: tokio::task::JoinError) -> String {
    *error.into_panic().downcast::<String>().unwrap()
}

everywhere! {
    async fn a_step_outside_of_a_workflow_panics_with_the_way_out(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let text = panic_text(tokio::spawn(runtime.enter(async { leaf("outside").await })).await.unwrap_err());
        assert!(text.starts_with("step `leaf` was called outside of a workflow (called at "), "{text}");
        assert!(text.contains("misuse.rs:") && text.contains("`#[workflow]`") && text.contains("`durable::plain(async { .. })`"), "{text}");
        assert_eq!(probe.hits("leaf"), 0);
    }

    async fn a_step_polled_by_another_task_panics_with_the_way_out(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let text = runtime.enter(async { spawns::start().id("w").await.unwrap().result().await.unwrap() }).await;
        assert!(text.starts_with("a step was polled outside of its workflow (called at "), "{text}");
        assert!(text.contains("misuse.rs:") && text.contains("`durable::join!`") && text.contains("`tokio::spawn`"), "{text}");
        assert_eq!(probe.hits("leaf"), 0);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_steps").await, ["0"]);
    }

    async fn a_step_inside_a_step_is_a_recorded_failure_with_the_way_out(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let error = runtime.enter(async { step_in_step::start().id("w").await.unwrap().result().await.unwrap() }).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("`leaf` was called inside the body of step `nests`") && text.contains("a step is a leaf"), "{text}");
        assert_eq!(probe.hits("leaf"), 0);
        assert_eq!(rows(&database, "SELECT step_name, status FROM workflow_steps").await, ["nests|error"]);
    }

    async fn a_workflow_inside_a_workflow_is_a_typed_failure(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let text = runtime.enter(async { parent::start().id("w").await.unwrap().result().await.unwrap() }).await.unwrap();
        assert_eq!(text.matches("workflow `child` was called inside a workflow").count(), 2, "{text}");
        let error = runtime.enter(async { parent_of_plain::start().id("p").await.unwrap().result().await }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.to_string().contains("workflow `plain_child` was called inside a workflow"), "{error}");
        let error = runtime.enter(async { parent_in_step::start().id("s").await.unwrap().result().await.unwrap() }).await.unwrap_err();
        assert!(error.to_string().contains("workflow `child` was called inside a workflow"), "{error}");
        assert_eq!(probe.hits("child"), 0);
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflows ORDER BY workflow_id").await, ["p", "s", "w"]);
    }

    async fn an_idempotency_key_outside_of_a_step_names_the_way_out(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        let error = runtime.enter(async { asks_outside_of_a_step::start().id("w").await.unwrap().result().await }).await.unwrap_err();
        assert!(error.to_string().contains("call it in the body of a `#[step]` function"), "{error}");
    }
}

/// What a future panics with, on a runtime of its own where nothing durable is current.
fn panic_without_runtime(call: impl FnOnce() -> futures_util::future::BoxFuture<'static, ()>) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(async { call().await })));
    *caught.unwrap_err().downcast::<String>().unwrap()
}

#[test]
fn a_workflow_without_a_runtime_names_init_and_plain() {
    let calls: [fn() -> futures_util::future::BoxFuture<'static, ()>; 3] = [
        || Box::pin(async { drop(child().await) }),
        || Box::pin(async { drop(child::start().await) }),
        || Box::pin(async { drop(durable::handle::<child>("w")) }),
    ];
    for call in calls {
        let text = panic_without_runtime(call);
        assert!(text.contains("needs a runtime (called at ") && text.contains("misuse.rs:"), "{text}");
        assert!(text.contains("`durable::init().await`") && text.contains("`durable::plain(async { .. })`"), "{text}");
    }
    let text = panic_without_runtime(|| Box::pin(async { drop(durable::workflow_id()) }));
    assert!(text.contains("`durable::workflow_id()` was called outside of a workflow"), "{text}");
}

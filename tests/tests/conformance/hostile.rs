//! User code that panics where nobody expects it, and programs that end in other ways than asked for: no run is left
//! with nobody behind it.

use std::time::Duration;

use durable::{ErrorKind, WorkflowStatus, step, workflow};
use durable_tests::everywhere;
use serde::{Deserialize, Serialize};

use crate::support::{becomes, begin, insert_pending, probe, quick, reach, recovered, rows, rows_become};

/// Its decoder has a bug at 13.
#[derive(Serialize)]
struct Picky(u32);

impl<'de> Deserialize<'de> for Picky {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer)?;
        assert_ne!(number, 13, "thirteen");
        Ok(Self(number))
    }
}

#[workflow]
async fn picky(number: Picky) -> u32 {
    number.0
}

/// Panics when it is dropped, also as a panic's payload.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(0_u8);
    }
}

#[workflow]
async fn explodes() -> Result<(), String> {
    std::panic::panic_any(Bomb)
}

#[step]
async fn hold() -> u32 {
    probe().hit("hold");
    probe().gate("hold").await;
    1
}

#[workflow]
async fn holds() -> u32 {
    hold().await
}

everywhere! {
    async fn a_panic_in_decoding_an_input_blocks_its_run_alone(database: Database) {
        let (first, probe) = begin(&database).await;
        first.shutdown().await;
        insert_pending(&database, "bad", "picky", Some(r#"{"number":13}"#)).await;
        insert_pending(&database, "good", "picky", Some(r#"{"number":7}"#)).await;
        let runtime = recovered(&database, &probe).await;
        let bad = reach::<picky>(&runtime, "bad").await;
        becomes(&bad, WorkflowStatus::Blocked).await;
        let error = bad.result().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Blocked);
        assert!(error.to_string().contains("thirteen"), "{error}");
        assert_eq!(reach::<picky>(&runtime, "good").await.result().await.unwrap(), 7);
    }

    async fn a_panic_with_a_payload_that_panics_is_a_recorded_failure(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        let run = runtime.enter(async { explodes::start().id("w").await.unwrap() }).await;
        let failure = run.result().await.unwrap().unwrap_err();
        assert!(failure.contains("workflow `explodes` panicked"), "{failure}");
        assert_eq!(rows(&database, "SELECT status FROM workflows").await, ["failed"]);
    }

    async fn every_call_of_shutdown_waits_for_its_end(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { holds::start().id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        // Given up at once: it goes on all the same.
        assert!(tokio::time::timeout(Duration::ZERO, runtime.shutdown()).await.is_err());
        runtime.shutdown().await;
        assert_eq!(rows(&database, "SELECT status FROM workflows").await, ["pending"]);
    }

    async fn the_end_of_the_tokio_runtime_gives_the_work_to_others(database: Database) {
        let (outer, probe) = begin(&database).await;
        outer.shutdown().await;
        let builder = quick(&database, &probe);
        let held = std::thread::spawn(move || {
            let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            tokio.block_on(async {
                let runtime = builder.build().await.unwrap();
                runtime.enter(async { holds::start().id("w").await.unwrap() }).await;
                runtime
            })
        })
        .join()
        .unwrap();
        let next = recovered(&database, &probe).await;
        probe.open("hold");
        assert_eq!(reach::<holds>(&next, "w").await.result().await.unwrap(), 1);
        drop(held);
    }

    async fn a_branch_that_is_nested_too_deep_fails_its_workflow(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        let run = runtime.enter(async { nests::start(160).id("w").await.unwrap() }).await;
        let error = tokio::time::timeout(Duration::from_secs(60), run.result()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.to_string().contains("nested too deep"), "{error}");
        rows_become(&database, "SELECT status FROM workflows", &["failed"]).await;
    }
}

fn nest(depth: u32) -> std::pin::Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(async move {
        if depth == 0 {
            return hold().await;
        }
        // High indexes make a long path before the stack is deep.
        for _ in 0..1_000 {
            durable::uuid();
        }
        let (sum, _) = durable::join!(nest(depth - 1), async { 0 });
        sum
    })
}

#[workflow]
async fn nests(depth: u32) -> u32 {
    nest(depth).await
}

#[tokio::test]
async fn a_workflow_that_is_called_for_a_plain_run_is_plain() {
    assert_eq!(durable::plain(picky(Picky(3))).await, 3);
}

//! What a program can watch: each event after its commit, in the order in which things happened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use durable::{Builder, Event, step, workflow};
use durable_tests::everywhere;

use crate::support::{begin, crash_and_recover, probe, reach, rows};

#[step]
async fn one() -> u32 {
    1
}

#[step(retry(max_attempts = 2, initial = "1ms", max = "1ms"))]
async fn two() -> Result<u32, String> {
    Err(format!("no {}", probe().hit("two")))
}

#[step]
async fn hold() {
    probe().gate("hold").await;
}

#[workflow]
async fn watched() -> u32 {
    let first = one().await;
    let second = two().await.unwrap_or(2);
    hold().await;
    first + second
}

#[workflow]
async fn unwatched(n: u32) -> u32 {
    one().await + n
}

everywhere! {
    async fn events_come_in_order_over_a_crash(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { watched::start().id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("hold");
        assert_eq!(reach::<watched>(&next, "w").await.result().await.unwrap(), 3);
        probe.told("w ended done").await;
        let mut events = probe.events();
        // The runtime that crashed tells, or does not, that it no longer runs it.
        events.retain(|event| event != "w ended running");
        assert_eq!(events, [
            "w started recovered=false steps=0",
            "w checkpoint /0 one error=false",
            "w retry two 1 no 1",
            "w checkpoint /1 two error=true",
            "w started recovered=true steps=2",
            "w replayed /0 one",
            "w replayed /1 two",
            "w checkpoint /2 hold error=false",
            "w ended done",
        ]);
    }

    async fn an_event_is_told_after_its_commit(database: Database) {
        // The hook holds up the engine while somebody else looks at the rows: what it is told of is there.
        let (told, mut look) = mpsc::channel::<String>();
        let (looked, go_on) = mpsc::channel::<()>();
        let go_on = std::sync::Mutex::new(go_on);
        let hook = move |event: &Event<'_>| {
            let name = match event {
                Event::Checkpoint { step_name, .. } => (*step_name).to_owned(),
                Event::Ended { status, .. } => status.to_string(),
                Event::Started { .. } => "started".to_owned(),
                _ => return,
            };
            told.send(name).unwrap();
            // What this thread had woken is for the other one.
            tokio::task::block_in_place(|| go_on.lock().unwrap().recv().unwrap());
        };
        let runtime = Builder::new().url(database.url()).on_event(hook).build().await.unwrap();
        let run = tokio::spawn(runtime.enter(async { unwatched::start(1).id("w").await.unwrap().result().await.unwrap() }));
        for (event, status, steps) in [("started", "running", "0"), ("one", "running", "1"), ("done", "done", "1")] {
            let (name, back) = tokio::task::spawn_blocking(move || (look.recv().unwrap(), look)).await.unwrap();
            assert_eq!(name, event);
            assert_eq!(rows(&database, "SELECT status FROM workflows").await, [status], "{event}");
            assert_eq!(rows(&database, "SELECT count(*) FROM workflow_steps").await, [steps], "{event}");
            looked.send(()).unwrap();
            look = back;
        }
        assert_eq!(run.await.unwrap(), 2);
    }

    async fn a_hook_that_panics_harms_nobody(database: Database) {
        let called = Arc::new(AtomicBool::new(false));
        let here = Arc::clone(&called);
        let hook = move |_: &Event<'_>| {
            here.store(true, Ordering::SeqCst);
            panic!("the hook");
        };
        let runtime = Builder::new().url(database.url()).on_event(hook).build().await.unwrap();
        assert_eq!(runtime.enter(async { unwatched::start(1).id("w").await.unwrap().result().await.unwrap() }).await, 2);
        assert!(called.load(Ordering::SeqCst));
    }
}

//! Time, randomness and keys repeat on replay; what a runtime was given is at hand.

use std::collections::BTreeSet;
use std::time::SystemTime;

use durable::{step, workflow};
use durable_tests::everywhere;

use crate::support::{begin, crash_and_recover, probe, quick, reach, rows};

#[step]
async fn key_of(arm: u32) -> String {
    probe().note(format!("key {arm} {}", durable::idempotency_key()));
    durable::idempotency_key()
}

#[step(retry(max_attempts = 3, initial = "1ms", max = "1ms"))]
async fn keyed_attempts() -> Result<String, String> {
    let attempt = probe().hit("attempt");
    probe().note(format!("attempt {}", durable::idempotency_key()));
    if attempt < 3 { Err("again".to_owned()) } else { Ok(durable::idempotency_key()) }
}

#[step]
async fn hold() -> String {
    probe().note(format!("hold {} {}", durable::idempotency_key(), durable::workflow_id()));
    probe().gate("hold").await;
    durable::idempotency_key()
}

#[workflow]
async fn ambient() -> Vec<String> {
    let (one, two) = (durable::uuid(), durable::uuid());
    let numbers =
        (durable::random::<u64>(), durable::random::<u64>(), durable::random::<bool>(), durable::random::<f64>());
    let now = durable::now().await;
    let (left, right) = durable::join!(key_of(0), key_of(1));
    let in_arms = durable::map(0..2, 2, |_| async { durable::uuid().to_string() }).await;
    let values = format!("{one} {two} {numbers:?} {now:?} {left} {right} {in_arms:?} {}", durable::workflow_id());
    probe().note(format!("values {values}"));
    keyed_attempts().await.unwrap();
    let held = hold().await;
    let mut keys = vec![one.to_string(), two.to_string(), left, right, held];
    keys.extend(in_arms);
    keys
}

#[workflow]
async fn clocked() -> (SystemTime, SystemTime) {
    (durable::now().await, durable::now().await)
}

#[workflow]
async fn greeted() -> String {
    let in_body = durable::state::<String>().to_string();
    format!("{in_body} {}", greet().await)
}

#[step]
async fn greet() -> String {
    durable::state::<String>().to_string()
}

everywhere! {
    async fn time_randomness_and_keys_repeat_after_a_crash(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { ambient::start().id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.reached("hold", 2).await;
        probe.open("hold");
        let keys = reach::<ambient>(&next, "w").await.result().await.unwrap();
        let distinct: BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{keys:?}");
        let notes = probe.notes();
        let twice = |word: &str| notes.iter().filter(|note| note.starts_with(word)).cloned().collect::<Vec<_>>();
        let (values, holds, attempts) = (twice("values"), twice("hold"), twice("attempt"));
        assert_eq!((values.len(), &values[0]), (2, &values[1]));
        assert!(values[0].ends_with(" w"), "{values:?}");
        // The same step, in another process after a crash, asks the other side under the same key.
        assert_eq!((holds.len(), &holds[0]), (2, &holds[1]));
        assert!(attempts.len() == 3 && attempts.iter().all(|note| *note == attempts[0]), "{attempts:?}");
        assert_eq!(holds[0].split(' ').nth(1).unwrap().len(), 32);
        // Derived values have no row; the time has.
        assert_eq!(rows(&database, "SELECT kind, step_name FROM workflow_steps WHERE kind <> 'step'").await, ["now|now"]);
    }

    async fn two_runs_have_other_values(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("hold");
        let (one, two) = runtime.enter(async {
            (ambient::start().id("a").await.unwrap().result().await.unwrap(),
             ambient::start().id("b").await.unwrap().result().await.unwrap())
        }).await;
        assert!(one.iter().all(|key| !two.contains(key)), "{one:?} {two:?}");
    }

    async fn now_is_the_databases_time(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        let before = SystemTime::now();
        let (one, two) = runtime.enter(async { clocked().await }).await;
        let slack = std::time::Duration::from_secs(5);
        assert!(one + slack > before && two + slack > one && two < SystemTime::now() + slack, "{before:?} {one:?} {two:?}");
    }

    async fn state_is_that_of_the_runtime_that_runs_the_code(database: Database) {
        let elsewhere = database.store().fresh_database().await;
        let probe = crate::support::Probe::default();
        let here = quick(&database, &probe).state("here".to_owned()).build().await.unwrap();
        let there = quick(&elsewhere, &probe).state("first".to_owned()).state("there".to_owned()).build().await.unwrap();
        assert_eq!(here.enter(async { greeted().await }).await, "here here");
        assert_eq!(there.enter(async { greeted().await }).await, "there there");
        let panic = tokio::spawn(here.enter(async { durable::state::<u8>() })).await.unwrap_err().into_panic();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("no state of the type `u8`") && text.contains("`Builder::state(value)`"), "{text}");
    }
}

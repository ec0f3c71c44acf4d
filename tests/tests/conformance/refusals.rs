//! What can't be recorded is a typed error with what, where and what to do; nothing of it is stored, and nothing is
//! tried twice for it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use durable::{ErrorKind, Failure, FailureKind, WorkflowStatus, step, workflow};
use durable_tests::everywhere;
use serde::{Deserialize, Serialize, Serializer, ser};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::support::{Probe, becomes, begin, crash_and_recover, insert_pending, probe, quick, reach, rows};

const MIB: usize = 1 << 20;

#[step(retry(max_attempts = 5, initial = "1ms", max = "1ms"))]
async fn large(size: usize) -> anyhow::Result<String> {
    probe().hit("large");
    Ok("x".repeat(size))
}

#[workflow]
async fn large_step(size: usize) -> anyhow::Result<usize> {
    Ok(large(size).await?.len())
}

#[workflow]
async fn large_input(text: String) -> usize {
    probe().hit("large input");
    text.len()
}

#[workflow]
async fn large_result(size: usize) -> anyhow::Result<String> {
    Ok("x".repeat(size))
}

#[derive(Serialize, Deserialize)]
struct Reading {
    sensor: String,
    values: Vec<f64>,
}

#[step(retry(max_attempts = 5, initial = "1ms", max = "1ms"))]
async fn read(value: f64) -> Result<Reading, Failure> {
    probe().hit("read");
    Ok(Reading { sensor: "s".to_owned(), values: vec![1.0, value] })
}

#[workflow]
async fn readings(kind: String) -> Result<f64, Failure> {
    let value = match kind.as_str() {
        "nan" => f64::NAN,
        "infinite" => f64::NEG_INFINITY,
        _ => 0.5,
    };
    Ok(read(value).await?.values[1])
}

#[workflow]
async fn reading_input(reading: Reading) -> usize {
    reading.values.len()
}

#[step(retry(max_attempts = 5, initial = "1ms", max = "1ms"))]
async fn deep(levels: usize) -> anyhow::Result<Value> {
    probe().hit("deep");
    Ok((0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner])))
}

#[workflow]
async fn deep_step(levels: usize) -> anyhow::Result<usize> {
    let mut value = &deep(levels).await?;
    let mut depth = 0;
    while let Some(inner) = value.get(0) {
        (value, depth) = (inner, depth + 1);
    }
    Ok(depth)
}

#[workflow]
async fn any_input(value: Value) -> String {
    value.to_string()
}

#[workflow]
async fn raw_input(value: Box<RawValue>) -> String {
    value.get().to_owned()
}

/// An error that can't be stored as itself after all.
#[derive(Debug, Deserialize)]
struct Unwilling;

impl fmt::Display for Unwilling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error that will not be stored")
    }
}

impl std::error::Error for Unwilling {}

impl Serialize for Unwilling {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom("not today"))
    }
}

#[workflow]
async fn unwilling() -> Result<u32, Unwilling> {
    Err(Unwilling)
}

#[derive(Debug)]
struct Convertible(String);

impl<'de> Deserialize<'de> for Convertible {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl Serialize for Convertible {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom("not today"))
    }
}

impl fmt::Display for Convertible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Convertible {}

impl From<Failure> for Convertible {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

#[workflow]
async fn convertible() -> Result<u32, Convertible> {
    Err(Convertible("kept in words".to_owned()))
}

/// Writes what it can't read.
#[derive(Debug, Serialize)]
struct OneWay(u32);

impl<'de> Deserialize<'de> for OneWay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bool::deserialize(deserializer).map(|_| Self(0))
    }
}

#[step(retry(max_attempts = 5, initial = "1ms", max = "1ms"))]
async fn one_way() -> anyhow::Result<OneWay> {
    probe().hit("one way");
    Ok(OneWay(7))
}

#[workflow]
async fn one_way_step() -> anyhow::Result<u32> {
    Ok(one_way().await?.0)
}

#[step]
async fn nul_error() -> anyhow::Result<()> {
    anyhow::bail!("a \0 in the words")
}

#[workflow]
async fn nul_in_error() -> anyhow::Result<()> {
    nul_error().await
}

#[workflow]
async fn keyed(map: BTreeMap<String, f64>) -> usize {
    map.len()
}

everywhere! {
    async fn a_payload_over_the_limit_is_refused_with_step_size_and_limit(database: Database) {
        let probe = Probe::default();
        let runtime = quick(&database, &probe).payload_max(MIB).build().await.unwrap();
        let error = runtime.enter(async { large_step::start(2 * MIB).id("step").await.unwrap().result().await.unwrap() }).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Failure>().unwrap().kind(), FailureKind::Payload);
        let size = (2 * MIB + 2).to_string();
        let text = error.to_string();
        assert!(text.contains("`large`") && text.contains(&size) && text.contains(&MIB.to_string()), "{text}");
        assert_eq!(probe.hits("large"), 1, "the effect happened once, and is not tried again");
        assert_eq!(rows(&database, "SELECT status, attempts FROM workflow_steps").await, ["error|1"]);
        assert_eq!(rows(&database, "SELECT status FROM workflows").await, ["failed"]);

        let input = runtime.enter(async { large_input::start("x".repeat(2 * MIB)).id("input").await.unwrap_err() }).await;
        assert_eq!(input.kind(), ErrorKind::InvalidPayload);
        let text = input.to_string();
        assert!(text.contains("`large_input`") && text.contains(&MIB.to_string()), "{text}");
        assert_eq!((rows(&database, "SELECT count(*) FROM workflows").await, probe.hits("large input")), (vec!["1".to_owned()], 0));

        let result = runtime.enter(async { large_result::start(2 * MIB).id("result").await.unwrap().result().await.unwrap() }).await.unwrap_err();
        assert!(result.to_string().contains("`large_result`") && result.to_string().contains(&size), "{result}");
        assert_eq!(rows(&database, "SELECT status FROM workflows WHERE workflow_id = 'result'").await, ["failed"]);
        // What is just below is not.
        assert_eq!(runtime.enter(async { large_step::start(MIB - 2).await.unwrap().result().await.unwrap().unwrap() }).await, MIB - 2);
    }

    async fn a_float_that_is_no_number_is_refused_with_its_path(database: Database) {
        let (runtime, probe) = begin(&database).await;
        for (n, kind) in ["nan", "infinite"].into_iter().enumerate() {
            let error = runtime.enter(async { readings::start(kind.to_owned()).id(kind).await.unwrap().result().await.unwrap() }).await.unwrap_err();
            assert_eq!(error.kind(), FailureKind::Payload);
            assert!(error.to_string().contains("`read`") && error.to_string().contains("values[1]"), "{error}");
            assert_eq!(probe.hits("read"), n + 1, "not tried again");
        }
        let reading = || Reading { sensor: "s".to_owned(), values: vec![f64::NAN] };
        let error = runtime.enter(async { reading_input::start(reading()).id("input").await.unwrap_err() }).await;
        assert_eq!(error.kind(), ErrorKind::InvalidPayload);
        assert!(error.to_string().contains("reading.values[0]"), "{error}");
        let map = BTreeMap::from([("key".to_owned(), f64::INFINITY)]);
        let error = runtime.enter(async { keyed::start(map).id("map").await.unwrap_err() }).await;
        assert!(error.to_string().contains("map.key") || error.to_string().contains("map[\"key\"]"), "{error}");
        assert_eq!(rows(&database, "SELECT workflow_id, status FROM workflows ORDER BY workflow_id").await, ["infinite|failed", "nan|failed"]);
    }

    async fn a_value_that_is_too_deep_to_read_is_refused_at_write(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let error = runtime.enter(async { deep_step::start(200).id("w").await.unwrap().result().await.unwrap() }).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Failure>().unwrap().kind(), FailureKind::Payload);
        assert!(error.to_string().contains("`deep`"), "{error}");
        assert_eq!(probe.hits("deep"), 1);
        assert_eq!(rows(&database, "SELECT status FROM workflows").await, ["failed"]);
        assert_eq!(runtime.enter(async { deep_step::start(100).await.unwrap().result().await.unwrap().unwrap() }).await, 100);
    }

    async fn text_nested_a_hundred_thousand_deep_harms_nobody(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let text = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        // At the edge of the API, where a program hands over text as it came in.
        let Ok(raw) = RawValue::from_string(text.clone()) else { panic!("raw text is only checked for its form") };
        let error = runtime.enter(async { raw_input::start(raw).id("raw").await.unwrap_err() }).await;
        assert_eq!(error.kind(), ErrorKind::InvalidPayload, "{error}");
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows").await, ["0"]);
        // Beneath it, by hand.
        if database.store() == durable_tests::Store::Sqlite {
            insert_pending(&database, "row", "any_input", Some(&format!("{{\"value\":{text}}}"))).await;
            let next = crash_and_recover(&database, &probe, runtime).await;
            becomes(&reach::<any_input>(&next, "row").await, WorkflowStatus::Blocked).await;
            assert_eq!(next.enter(async { any_input::start(Value::from(1)).await.unwrap().result().await.unwrap() }).await, "1");
        }
    }

    async fn an_unpaired_surrogate_is_refused_at_the_edge(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        let raw = RawValue::from_string(r#"{"a": "\ud800"}"#.to_owned());
        if let Ok(raw) = raw {
            let error = runtime.enter(async { raw_input::start(raw).id("raw").await.unwrap_err() }).await;
            assert_eq!(error.kind(), ErrorKind::InvalidPayload, "{error}");
        }
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows").await, ["0"]);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_payloads").await, ["0"]);
    }

    async fn an_error_that_will_not_be_stored_is_recorded_in_words(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        // Far less than the polls of a handle that was not told.
        let soon = Duration::from_secs(3);
        let waiting = runtime.enter(async { unwilling::start().id("w").await.unwrap() }).await;
        let error = tokio::time::timeout(soon, waiting.result()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.to_string().contains("an error that will not be stored"), "{error}");
        let waiting = runtime.enter(async { convertible::start().id("c").await.unwrap() }).await;
        let error = tokio::time::timeout(soon, waiting.result()).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.0, "kept in words");
        assert_eq!(rows(&database, "SELECT workflow_id, status, error_message FROM workflows ORDER BY workflow_id").await,
            ["c|failed|kept in words", "w|failed|an error that will not be stored"]);
    }

    async fn a_value_that_does_not_read_back_is_refused_at_write(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let error = runtime.enter(async { one_way_step::start().id("w").await.unwrap().result().await.unwrap() }).await.unwrap_err();
        assert!(error.to_string().contains("`one_way`") && error.to_string().contains("does not read back"), "{error}");
        assert_eq!(probe.hits("one way"), 1);
        assert_eq!(rows(&database, "SELECT status, attempts FROM workflow_steps").await, ["error|1"]);
    }

    async fn a_nul_in_an_error_is_kept_in_the_value_and_shown_in_the_column(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let error = runtime.enter(async { nul_in_error::start().id("w").await.unwrap().result().await.unwrap() }).await.unwrap_err();
        assert_eq!(error.to_string(), "a \0 in the words");
        assert_eq!(rows(&database, "SELECT status, error_message FROM workflows").await, ["failed|a \u{fffd} in the words"]);
        assert_eq!(rows(&database, "SELECT error_message FROM workflow_steps").await, ["a \u{fffd} in the words"]);
        let next = crash_and_recover(&database, &probe, runtime).await;
        let again = reach::<nul_in_error>(&next, "w").await.result().await.unwrap().unwrap_err();
        assert_eq!(again.to_string(), "a \0 in the words");
    }
}

//! Payloads come back as they were recorded, or are refused before they are written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use durable::{step, workflow};
use durable_tests::everywhere;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::support::{begin, crash_and_recover, insert_pending, probe, reach, rows};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Nested {
    name: String,
    map: BTreeMap<String, Vec<Option<String>>>,
}

#[step]
async fn through(value: &Nested) -> Nested {
    probe().hit("through");
    value.clone()
}

#[step]
async fn hold() {
    probe().gate("hold").await;
}

#[workflow]
async fn text(value: Nested) -> Nested {
    let again = through(&value).await;
    assert_eq!(again, value);
    hold().await;
    again
}

#[workflow]
async fn size_of(text: String) -> usize {
    text.len()
}

#[step]
async fn floats(seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let finite = std::iter::repeat_with(|| f64::from_bits(random.u64(..))).filter(|number| number.is_finite());
    let edges = [
        1.577_777_777_777_000_1,
        -0.0,
        0.0,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        f64::MIN,
        f64::EPSILON,
        1e21,
        0.1 + 0.2,
    ];
    let subnormal = (0..200).map(|n| f64::from_bits(1 << (n % 52) | n));
    edges.into_iter().chain(subnormal).chain(finite.take(2_000)).collect()
}

#[workflow]
async fn bits(seed: u64) -> Vec<u64> {
    let bits: Vec<u64> = floats(seed).await.into_iter().map(f64::to_bits).collect();
    probe().note(format!("{bits:?}"));
    hold().await;
    bits
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Extremes {
    u64s: Vec<u64>,
    i64s: Vec<i64>,
    u128: u128,
    i128: i128,
    text: String,
}

impl Extremes {
    fn new() -> Self {
        Self {
            u64s: vec![0, u64::MAX, (1 << 53) + 1, i64::MAX as u64 + 1],
            i64s: vec![i64::MIN, i64::MAX, -1, -(1 << 53) - 1],
            u128: u128::from(u64::MAX),
            i128: i128::from(i64::MIN),
            text: "\u{1}\u{7f}\u{feff}\u{10ffff} \\u0000 \"quoted\" 한국어 🦀".to_owned(),
        }
    }
}

#[step]
async fn pass(value: &str) -> Extremes {
    assert_eq!(value, Extremes::new().text);
    Extremes::new()
}

#[workflow]
async fn extremes(value: Extremes) -> Extremes {
    let again = pass(&value.text).await;
    hold().await;
    again
}

/// A value that its workflow alters after the step returned it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Vec<u32>>>);

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.lock().unwrap().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Arc::new(Mutex::new(Vec::deserialize(deserializer)?))))
    }
}

#[step]
async fn give(shared: &Shared) -> Shared {
    shared.clone()
}

#[step]
async fn alter(shared: &Shared) -> usize {
    let mut values = shared.0.lock().unwrap();
    values.push(99);
    values.len()
}

#[workflow]
async fn sharing() -> (Vec<u32>, Vec<u32>) {
    let mine = Shared(Arc::new(Mutex::new(vec![1, 2])));
    let given = give(&mine).await;
    given.0.lock().unwrap().push(3);
    mine.0.lock().unwrap().push(4);
    // What the first run holds is the decoded copy, so both runs see the same from here on.
    let seen = (given.0.lock().unwrap().clone(), mine.0.lock().unwrap().clone());
    probe().note(format!("{seen:?}"));
    let _ = alter(&given).await;
    hold().await;
    seen
}

/// Loses a field on the way: what is recorded is what counts.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Lossy {
    kept: u32,
    #[serde(skip)]
    lost: u32,
}

#[step]
async fn lose() -> Lossy {
    Lossy { kept: 1, lost: 2 }
}

#[workflow]
async fn losing() -> u32 {
    let lossy = lose().await;
    probe().note(lossy.lost);
    hold().await;
    lossy.kept + lossy.lost
}

mod moved {
    use serde::{Deserialize, Serialize};

    /// Was `Order { number }`, in another module, when the old rows were written.
    #[derive(Serialize, Deserialize)]
    pub(super) struct Purchase {
        pub(super) number: u32,
        #[serde(default = "one")]
        pub(super) count: u32,
    }

    fn one() -> u32 {
        1
    }
}

#[workflow]
async fn purchase(order: moved::Purchase) -> u32 {
    order.number * order.count
}

everywhere! {
    async fn a_nul_in_values_and_keys_comes_back_exactly(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let literal = r"\u0000";
        let value = Nested {
            name: "with \0 inside".to_owned(),
            map: BTreeMap::from([
                ("key\0one".to_owned(), vec![Some("\0".to_owned()), None]),
                (literal.to_owned(), vec![Some(literal.to_owned())]),
            ]),
        };
        let input = value.clone();
        runtime.enter(async { text::start(input).id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("hold");
        let again = reach::<text>(&next, "w").await.result().await.unwrap();
        assert_eq!(again, value);
        assert_ne!(again.map[literal], again.map["key\0one"]);
        assert_eq!(probe.hits("through"), 1);
        // The same input is the same run, NUL or not.
        let input = value.clone();
        assert_eq!(next.enter(async { text::start(input).id("w").await.unwrap().result().await.unwrap() }).await, value);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows").await, ["1"]);
    }

    async fn inputs_around_and_over_eight_thousand_bytes_start(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        for size in [7_900, 8_100, 2 << 20] {
            let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(size).collect();
            assert_eq!(runtime.enter(async { size_of::start(text).await.unwrap().result().await.unwrap() }).await, size);
        }
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows WHERE status = 'done'").await, ["3"]);
    }

    async fn floats_keep_every_bit_over_a_crash(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let seed = fastrand::u64(..);
        runtime.enter(async { bits::start(seed).id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("hold");
        let replayed = reach::<bits>(&next, "w").await.result().await.unwrap();
        let notes = probe.notes();
        assert_eq!((notes.len(), &notes[0]), (2, &notes[1]), "seed {seed}");
        let original: Vec<u64> = durable::plain(async { floats(seed).await }).await.into_iter().map(f64::to_bits).collect();
        assert_eq!(replayed, original, "seed {seed}");
    }

    async fn extreme_integers_and_text_come_back_exactly(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { extremes::start(Extremes::new()).id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("hold");
        assert_eq!(reach::<extremes>(&next, "w").await.result().await.unwrap(), Extremes::new());
    }

    async fn a_checkpoint_is_what_the_step_returned_and_the_first_run_holds_a_copy(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { sharing::start().id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("hold");
        assert_eq!(reach::<sharing>(&next, "w").await.result().await.unwrap(), (vec![1, 2, 3], vec![1, 2, 4]));
        assert_eq!(probe.notes(), ["([1, 2, 3], [1, 2, 4])"; 2]);
        assert_eq!(rows(&database, "SELECT output FROM workflow_steps WHERE step_name = 'give'").await, ["[1,2]"]);
    }

    async fn what_is_not_recorded_is_not_seen_by_the_first_run_either(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { losing::start().id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("hold");
        assert_eq!(reach::<losing>(&next, "w").await.result().await.unwrap(), 1);
        assert_eq!(probe.notes(), ["0", "0"]);
    }

    async fn an_input_outlives_a_rename_a_move_and_a_new_field_with_a_default(database: Database) {
        let (runtime, probe) = begin(&database).await;
        insert_pending(&database, "old", "purchase", Some(r#"{"order":{"number":7}}"#)).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        assert_eq!(reach::<purchase>(&next, "old").await.result().await.unwrap(), 7);
        next.enter(async {
            purchase::start(moved::Purchase { number: 7, count: 2 }).id("new").await.unwrap().result().await.unwrap()
        }).await;
        assert_eq!(rows(&database, "SELECT payload FROM workflow_payloads WHERE workflow_id = 'new' ORDER BY part").await,
            [r#"{"order":{"number":7,"count":2}}"#, "14"]);
    }
}

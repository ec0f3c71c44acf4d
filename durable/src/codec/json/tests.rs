//! What JSON text holds, and what it refuses.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) -> String {
    let text = to_json(&value).unwrap();
    assert_eq!(from_json::<T>(&text).unwrap(), value, "{text}");
    assert_eq!(text, serde_json::to_string(&value).unwrap());
    text
}

#[track_caller]
fn refused<T: Serialize>(value: T) -> String {
    to_json(&value).unwrap_err().to_string()
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(f64);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Empty,
    One(f64),
    Two(u8, f32),
    Named {
        edge: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    unit: Unit,
    wrapped: Wrapped,
    shapes: Vec<Shape>,
    by_number: BTreeMap<i16, char>,
    pair: (bool, u128),
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[test]
fn every_kind_of_value_comes_back() {
    let text = comes_back(Everything {
        unit: Unit,
        wrapped: Wrapped(-0.5),
        shapes: vec![
            Shape::Empty,
            Shape::One(1.0),
            Shape::Two(1, 2.5),
            Shape::Named { edge: Some(2.0), name: None },
            Shape::Named { edge: None, name: Some("n".into()) },
        ],
        by_number: BTreeMap::from([(-3, 'é')]),
        pair: (true, 7),
        rest: BTreeMap::from([("more".into(), json!({"a": [null, 1.5, "x"]}))]),
    });
    assert!(!text.contains("durable") && !text.contains("Everything"), "no Rust path in {text}");
}

#[test]
fn extreme_numbers_come_back() {
    comes_back((u64::MAX, i64::MIN, i128::MIN, i128::MAX, u128::MAX, f64::MAX, f64::MIN_POSITIVE, f32::MAX));
    comes_back(json!([u64::MAX, i64::MIN, f64::MAX]));
}

#[test]
fn a_nul_comes_back_and_is_told_apart_from_its_escape() {
    let nul = comes_back(json!({"k\0": ["\0"]}));
    let escape = comes_back(json!({"k\\u0000": ["\\u0000"]}));
    assert!(!nul.contains('\0') && !escape.contains('\0'));
    assert_ne!(nul, escape);
}

#[test]
fn the_bits_of_every_float_come_back() {
    let special =
        [1.577_777_777_777_000_1, -0.0, 0.0, f64::from_bits(1), -f64::from_bits(0xf_ffff_ffff_ffff), 1e23, 5e-324];
    let random = std::iter::repeat_with(|| f64::from_bits(fastrand::u64(..))).filter(|v| v.is_finite()).take(20_000);
    let subnormal = std::iter::repeat_with(|| f64::from_bits(fastrand::u64(..) >> 12)).take(5_000);
    for value in special.into_iter().chain(random).chain(subnormal) {
        let back: f64 = from_json(&to_json(&value).unwrap()).unwrap();
        assert_eq!(back.to_bits(), value.to_bits(), "{value:e}");
        let back: Value = from_json(&to_json(&json!([value])).unwrap()).unwrap();
        assert_eq!(back[0].as_f64().unwrap().to_bits(), value.to_bits(), "{value:e}");
    }
    for value in std::iter::repeat_with(|| f32::from_bits(fastrand::u32(..))).filter(|v| v.is_finite()).take(20_000) {
        let back: f32 = from_json(&to_json(&value).unwrap()).unwrap();
        assert_eq!(back.to_bits(), value.to_bits(), "{value:e}");
    }
}

#[test]
fn a_float_that_json_cannot_hold_is_refused_with_its_path() {
    #[derive(Serialize)]
    struct Report {
        scores: Vec<f64>,
    }
    let report = BTreeMap::from([("report", Report { scores: vec![1.0, 2.0, 3.0, f64::NAN] })]);
    assert_eq!(
        refused(report),
        "field `report.scores[3]` is NaN, which JSON cannot hold: make it an `Option`, or store it with `codec = \
         \"bincode\"`"
    );
    let path = |message: String| message.split('`').nth(1).unwrap_or_default().to_owned();
    assert!(refused(f32::NEG_INFINITY).starts_with("the value is infinite, which JSON cannot hold"));
    assert_eq!(path(refused(Some(Wrapped(f64::NAN)))), "Option");
    assert_eq!(path(refused([Shape::One(f64::NAN)])), "[0].One");
    assert_eq!(path(refused([Shape::Two(1, f32::NAN)])), "[0].Two[1]");
    assert_eq!(path(refused([Shape::Named { edge: Some(f64::NAN), name: None }])), "[0].Named.edge");
    assert_eq!(path(refused((1, HashMap::from([(7_u8, [f64::INFINITY])])))), "[1].7[0]");
}

#[test]
fn a_value_is_as_deep_as_it_reads_back() {
    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"k": inner}) })
    }
    comes_back(nested(127));
    for levels in [128, 200] {
        let message = refused(nested(levels));
        assert!(message.contains("is nested deeper than 127 levels"), "{message}");
        assert!(message.len() < 250, "{message}");
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Tree {
        Leaf,
        One(Box<Tree>),
        Two(Box<Tree>, u8),
        Named { next: Box<Tree> },
    }
    let one = |tree: Tree| Tree::One(tree.into());
    let two = |tree: Tree| Tree::Two(tree.into(), 0);
    let named = |tree: Tree| Tree::Named { next: tree.into() };
    for (levels, wrap) in [(1, &one as &dyn Fn(Tree) -> Tree), (2, &two), (2, &named)] {
        comes_back((0..127 / levels).fold(Tree::Leaf, |tree, _| wrap(tree)));
        refused((0..127 / levels + 1).fold(Tree::Leaf, |tree, _| wrap(tree)));
    }
}

#[test]
fn text_of_any_depth_is_an_error_and_never_an_overflow() {
    for text in ["[".repeat(100_000), r#"{"a":"#.repeat(100_000)] {
        let message = from_json::<Value>(&text).unwrap_err().to_string();
        assert!(message.contains("recursion limit exceeded at line 1 column"), "{message}");
        assert!(check_json(&text).is_err());
    }
}

#[test]
fn raw_json_passes_untouched_if_it_reads_back() {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    let text = r#"{ "b" : 1.50, "a": "\u0000 \\u0000 \ud83d\ude00" }"#;
    let written = to_json(&[raw(text)]).unwrap();
    assert_eq!(written, format!("[{text}]"));
    assert_eq!(from_json::<[Box<RawValue>; 1]>(&written).unwrap()[0].get(), text);

    let message = refused(HashMap::from([("body", vec![raw(r#"["\ud800"]"#)])]));
    assert!(message.starts_with("field `body[0]` is raw JSON that does not read back"), "{message}");
    refused(raw(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))));
    refused(raw("1e999"));
}

#[test]
fn raw_text_is_checked() {
    for good in ["null", r#""\u0000""#, "[1, 2.5e3, -0]", r#"{"a": {"b": []}}"#, "1234567890123456789012345"] {
        check_json(good).unwrap();
    }
    for bad in ["", "nul", r#""\ud800""#, r#"{"\udc00": 1}"#, "[1,]", "{} {}", "1e999", "\"\u{1}\""] {
        check_json(bad).unwrap_err();
    }
    assert_eq!(
        check_json(r#"{"to": ["\ud800"]}"#).unwrap_err().to_string(),
        "JSON does not read as `serde_json::Value`: unexpected end of hex escape at line 1 column 16 in field `to[0]`"
    );
}

#[test]
fn an_error_names_its_field_when_writing() {
    struct Stubborn;
    impl Serialize for Stubborn {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("not today"))
        }
    }
    assert_eq!(refused((1, Stubborn)), "field `[1]` does not serialize: not today");
    let message = refused(HashMap::from([("m", HashMap::from([((1, 2), 3)]))]));
    assert_eq!(message, "field `m.[1,2]` does not serialize: key must be a string");
    assert!(refused(HashMap::from([("set", HashMap::from([(1.5_f64.to_bits(), Stubborn)]))])).contains("`set.46"));
}

#[test]
fn an_error_names_its_field_when_reading() {
    #[derive(Debug, Deserialize)]
    struct Order {
        #[expect(dead_code, reason = "only read")]
        lines: Vec<Shape>,
    }
    let message = from_json::<Order>(r#"{"lines":["Empty",{"One":"x"}]}"#).unwrap_err().to_string();
    assert!(message.contains("::Order`: invalid type: string \"x\", expected f64 at line 1 column 28"), "{message}");
    assert!(message.ends_with(" in field `lines[1].One`"), "{message}");
}

#[test]
fn a_new_field_with_a_default_reads_old_text() {
    mod old {
        #[derive(serde::Serialize)]
        pub(super) struct Input {
            pub(super) city: &'static str,
        }
    }
    mod new {
        #[derive(serde::Deserialize)]
        pub(super) struct Renamed {
            pub(super) city: String,
            #[serde(default)]
            pub(super) days: u8,
        }
    }
    let text = to_json(&old::Input { city: "Seoul" }).unwrap();
    assert_eq!(text, r#"{"city":"Seoul"}"#);
    let new: new::Renamed = from_json(&text).unwrap();
    assert_eq!((new.city.as_str(), new.days), ("Seoul", 0));
}

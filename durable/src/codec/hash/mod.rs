//! A hash of a step's arguments, so that a replay can tell that it asks with others than were recorded.
//!
//! Guarantees that two values with the same JSON hash alike, whatever the order of map entries and fields, the width
//! of integers and the names of types, and that the hash is the same in every build and on every platform: it is
//! stored. Makes no JSON and no tree: one buffer of canonical bytes, in which a map leaves the sum of its entries'
//! hashes. A `HashSet` is a sequence to serde, in an order that differs from process to process, and so is its hash.
//! Layer: below the stores.

mod canonical;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

/// One argument, by reference; the macros ask it for its hash through [`ArgsHash`] or [`ArgsUnhashed`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Arg<'a, T: ?Sized>(pub &'a T);

/// First choice: the argument serializes.
#[doc(hidden)]
pub trait ArgsHash {
    /// The hash, or `None` if the argument's own `Serialize` fails or nests too deep.
    fn __durable_hash(&self) -> Option<u64>;
}

impl<T: Serialize + ?Sized> ArgsHash for Arg<'_, T> {
    fn __durable_hash(&self) -> Option<u64> {
        canonical::bytes(self.0).ok().map(|bytes| xxh3_64(&bytes))
    }
}

/// Second choice, one auto-reference further away: the argument does not serialize.
#[doc(hidden)]
pub trait ArgsUnhashed {
    /// Always `None`.
    fn __durable_hash(&self) -> Option<u64>;
}

impl<T: ?Sized> ArgsUnhashed for &Arg<'_, T> {
    fn __durable_hash(&self) -> Option<u64> {
        None
    }
}

/// The hash of a call from those of its arguments, in order; `None` if one of them has none.
#[doc(hidden)]
pub fn hash_args(args: &[Option<u64>]) -> Option<u64> {
    let mut bytes = Vec::with_capacity(args.len() * 8);
    for arg in args {
        bytes.extend_from_slice(&(*arg)?.to_le_bytes());
    }
    Some(xxh3_64(&bytes))
}

/// Expands to the `Option<u64>` hash of a call's arguments, each an expression of any type that can be borrowed.
#[doc(hidden)]
#[macro_export]
macro_rules! __args_hash {
    () => {
        $crate::__private::pick::hash_args(&[])
    };
    ($($arg:expr),+ $(,)?) => {{
        use $crate::__private::pick::levels::*;
        $crate::__private::pick::hash_args(&[$((&$crate::__private::pick::Arg(&$arg)).__durable_hash()),+])
    }};
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Order {
        id: u32,
        lines: Vec<Line>,
        note: Option<String>,
    }

    #[derive(Serialize)]
    struct Line {
        sku: &'static str,
        price: f64,
        kind: Kind,
    }

    #[derive(Serialize)]
    enum Kind {
        Plain,
        Weight(i8),
        Size(u8, u8),
        Box { edge: i64 },
    }

    #[derive(Serialize)]
    struct Reordered {
        note: Option<String>,
        lines: Vec<Line>,
        id: i64,
    }

    fn lines() -> Vec<Line> {
        [Kind::Plain, Kind::Weight(-7), Kind::Size(1, 2), Kind::Box { edge: i64::MIN }]
            .map(|kind| Line { sku: "a-1", price: 0.1, kind })
            .into()
    }

    fn order() -> Order {
        Order { id: 7, lines: lines(), note: Some("héllo\0".into()) }
    }

    fn hash<T: Serialize>(value: T) -> u64 {
        Arg(&value).__durable_hash().unwrap()
    }

    #[test]
    fn the_hash_is_pinned() {
        // Stored in rows: if this fails, every unfinished workflow would warn of changed arguments.
        assert_eq!(hash(order()), 3_060_252_038_966_584_515);
        assert_eq!(hash_args(&[Some(1), Some(2)]), Some(571_542_372_673_154_031));
        assert_eq!(hash_args(&[]), Some(0x2d06_8005_38d3_94c2));
    }

    #[test]
    fn a_value_hashes_like_its_json() {
        assert_eq!(hash(order()), hash(serde_json::to_value(order()).unwrap()));
        for number in [json!(0), json!(u64::MAX), json!(i64::MIN), json!(-0.0), json!(1e300)] {
            assert_eq!(hash(&number), hash(number.clone()));
        }
        assert_eq!(hash(HashMap::from([(1, 'x')])), hash(json!({"1": "x"})));
        assert_eq!(hash(((), None::<u8>, true)), hash(json!([null, null, true])));
        assert_eq!(hash(1.1_f32), hash(json!(1.1_f32)));
        assert_eq!(hash(5_i8), hash(5_u128));
    }

    #[test]
    fn the_order_of_fields_and_entries_does_not_count() {
        let reordered = Reordered { note: Some("héllo\0".into()), lines: lines(), id: 7 };
        assert_eq!(hash(order()), hash(reordered));
        let entries: Vec<(String, Vec<usize>)> = (0..500).map(|n| (n.to_string(), vec![n])).collect();
        let sorted: BTreeMap<_, _> = entries.iter().cloned().collect();
        for _ in 0..3 {
            let shuffled: HashMap<_, _> = entries.iter().cloned().collect();
            assert_eq!(hash(&sorted), hash(shuffled));
        }
    }

    #[test]
    fn values_that_differ_hash_apart() {
        let values: Vec<serde_json::Value> = serde_json::from_str(
            r#"[null, false, 0, 0.0, -0.0, -1, 1, "", "0", "null", [], {}, [[]], [{}], [0, 1], [1, 0], [[0], 1],
                [[0, 1]], ["a", "b"], ["ab"], {"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": {"b": 1}}, {"a": {}, "b": 1},
                [{"a": 1}, {"b": 2}]]"#,
        )
        .unwrap();
        for (place, left) in values.iter().enumerate() {
            for right in &values[..place] {
                assert_ne!(hash(left), hash(right), "{left} and {right}");
            }
        }
    }

    #[test]
    fn arguments_without_serialize_have_no_hash() {
        struct Client;
        let mut count = 1;
        let by_mut = &mut count;
        assert!(crate::__args_hash!(7, "seven", by_mut, [1, 2][..]).is_some());
        assert_eq!(crate::__args_hash!(7, Client), None);
        assert!(crate::__args_hash!().is_some());
    }

    fn generic<T, U: Serialize>(opaque: T, known: U) -> [Option<u64>; 2] {
        [crate::__args_hash!(opaque), crate::__args_hash!(known)]
    }

    #[test]
    fn a_generic_argument_hashes_if_its_bounds_say_so() {
        let [opaque, known] = generic(1, 1);
        assert_eq!(opaque, None);
        assert!(known.is_some());
    }

    #[test]
    fn an_argument_too_deep_has_no_hash_and_does_not_overflow() {
        let mut deep = json!(1);
        for _ in 0..200 {
            deep = json!([deep]);
        }
        assert_eq!(crate::__args_hash!(deep), None);
    }
}

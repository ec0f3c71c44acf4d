//! Outcomes: which codec a return type gets, and that rows are read by what they say of themselves.

use std::error::Error as StdError;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

use super::*;

type Boxed = Box<dyn StdError + Send + Sync>;

/// Stored as itself.
#[derive(Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
enum Bank {
    #[error("balance is {have}, {need} needed")]
    Short { have: i64, need: i64 },
}

/// Stored in words.
#[derive(Debug, thiserror::Error)]
enum Mail {
    #[error("mailbox is full")]
    Full,
    #[error("mail was not sent")]
    Sending(#[source] Boxed),
    #[error("{0}")]
    Recorded(Failure),
}

impl From<Failure> for Mail {
    fn from(failure: Failure) -> Self {
        Self::Recorded(failure)
    }
}

fn json(text: &str) -> Payload {
    Payload { codec: 1, data: Data::Text(text.to_owned()) }
}

fn text(outcome: &Outcome) -> &str {
    match &outcome.payload().data {
        Data::Text(text) => text,
        Data::Bytes(_) => panic!("not text"),
    }
}

fn encoding(outcome: &Outcome) -> Option<ErrorEncoding> {
    match outcome {
        Outcome::Done(_) => None,
        Outcome::Error { encoding, .. } => Some(*encoding),
    }
}

fn message(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Done(_) => "",
        Outcome::Error { message, .. } => message,
    }
}

/// The error that comes back for a recorded one.
#[track_caller]
fn back<T: fmt::Debug, E>(codec: OutcomeCodec<Result<T, E>>, error: E) -> (Outcome, E) {
    let row = (codec.encode)(&Err(error)).unwrap();
    let error = (codec.decode)(&row).unwrap().unwrap_err();
    (row, error)
}

fn chain(error: &(dyn StdError + 'static)) -> Vec<String> {
    std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
}

#[test]
fn a_done_outcome_is_the_ok_side_alone() {
    let codec = crate::__outcome!(Result<Option<u8>, Bank>, json);
    let row = (codec.encode)(&Ok(Some(7))).unwrap();
    assert_eq!(row, Outcome::Done(json("7")));
    assert_eq!((codec.decode)(&row).unwrap(), Ok(Some(7)));
    assert!((codec.error)(&Ok(None)).is_none());
}

#[test]
fn what_is_no_result_is_stored_plainly() {
    let unit = crate::__outcome!((), json);
    assert_eq!((unit.encode)(&()).unwrap(), Outcome::Done(json("null")));
    (unit.decode)(&Outcome::Done(json("null"))).unwrap();
    let option = crate::__outcome!(Option<String>, json);
    let row = (option.encode)(&None).unwrap();
    assert_eq!((option.decode)(&row).unwrap(), None);
    assert!(option.from_failure.is_none() && (option.error)(&None).is_none());
    let message = (option.decode)(&Outcome::failure(&Failure::new("gone"))).unwrap_err().to_string();
    assert!(message.ends_with("cannot express: gone"), "{message}");
}

#[test]
fn a_serde_error_comes_back_as_itself() {
    let codec = crate::__outcome!(Result<(), Bank>, json);
    let (row, error) = back(codec, Bank::Short { have: 1, need: 2 });
    assert_eq!(error, Bank::Short { have: 1, need: 2 });
    assert_eq!(encoding(&row), Some(ErrorEncoding::Value));
    assert_eq!(message(&row), "balance is 1, 2 needed");
    assert_eq!(text(&row), r#"{"Short":{"have":1,"need":2}}"#);
    assert!(codec.from_failure.is_none());
}

#[test]
fn an_error_with_from_failure_comes_back_in_words() {
    let codec = crate::__outcome!(Result<u8, Mail>, json);
    let (row, error) = back(codec, Mail::Sending(Box::new(Mail::Full)));
    assert_eq!(encoding(&row), Some(ErrorEncoding::Failure));
    assert_eq!(message(&row), "mail was not sent: mailbox is full");
    let Mail::Recorded(failure) = error else { panic!("{error:?}") };
    assert_eq!(chain(&failure), ["mail was not sent", "mailbox is full"]);
    assert!(codec.from_failure.is_some());
}

#[test]
fn reports_and_boxes_come_back_with_their_chain() {
    let codec = crate::__outcome!(anyhow::Result<()>, json);
    let (row, error) = back(codec, anyhow::Error::from(Mail::Full).context("inner").context("outer"));
    assert_eq!(message(&row), "outer: inner: mailbox is full");
    assert_eq!(chain(error.as_ref()), ["outer", "inner", "mailbox is full"]);
    assert_eq!(format!("{error:#}"), "outer: inner: mailbox is full");
    let (again, same) = back(codec, error);
    assert_eq!(again, row, "a second pass changes nothing");
    assert_eq!(chain(same.as_ref()), ["outer", "inner", "mailbox is full"]);

    let codec = crate::__outcome!(eyre::Result<()>, json);
    let (row, error) = back(codec, eyre::Report::from(Mail::Full).wrap_err("outer"));
    assert_eq!(message(&row), "outer: mailbox is full");
    assert_eq!(chain(error.as_ref()), ["outer", "mailbox is full"]);

    let codec = crate::__outcome!(Result<(), Boxed>, json);
    let (_, error) = back(codec, Mail::Sending("no route".into()).into());
    assert_eq!(chain(error.as_ref()), ["mail was not sent", "no route"]);
}

#[test]
fn a_string_error_is_a_value_that_failures_fit_into() {
    let codec = crate::__outcome!(Result<(), String>, json);
    let (row, error) = back(codec, "no".to_owned());
    assert_eq!((text(&row), error.as_str(), message(&row)), ("\"no\"", "no", "no"));
    let revived = codec.from_failure.unwrap()(Failure::new("timed out"));
    assert_eq!(revived, Err("timed out".to_owned()));
    assert_eq!((codec.decode)(&Outcome::failure(&Failure::new("timed out"))).unwrap(), revived);
}

#[test]
fn a_failure_is_permanent_wherever_it_is_in_the_chain() {
    let permanent = |view: Option<ErrorView>| view.unwrap().failure.is_permanent();
    let codec = crate::__outcome!(anyhow::Result<()>, json);
    let blocked = || anyhow::Error::from(Failure::permanent("card is blocked"));
    assert!(permanent((codec.error)(&Err(blocked()))));
    assert!(permanent((codec.error)(&Err(blocked().context("charging").context("order 7")))));
    assert!(!permanent((codec.error)(&Err(anyhow::anyhow!("timeout").context("charging")))));
    let (_, error) = back(codec, blocked().context("charging"));
    assert!(permanent((codec.error)(&Err(error))), "after a replay too");

    let codec = crate::__outcome!(Result<(), Mail>, json);
    assert!(permanent((codec.error)(&Err(Mail::Sending(Box::new(Failure::permanent("no such user")))))));
    let codec = crate::__outcome!(Result<(), Failure>, json);
    assert!(permanent((codec.error)(&Err(Failure::permanent("no")))));
}

#[test]
fn a_view_takes_the_richest_words_there_are() {
    #[derive(Debug, Serialize, Deserialize)]
    struct OnlyDebug(u8);
    #[derive(Serialize, Deserialize)]
    struct Silent;
    let view = (crate::__outcome!(Result<(), OnlyDebug>, json).error)(&Err(OnlyDebug(7)));
    assert_eq!(view.unwrap().failure.message(), "OnlyDebug(7)");
    let view = (crate::__outcome!(Result<(), Silent>, json).error)(&Err(Silent));
    assert!(view.unwrap().failure.message().ends_with("::Silent"));
}

#[test]
fn a_chain_of_any_length_reads_back() {
    let codec = crate::__outcome!(anyhow::Result<()>, json);
    let mut error = anyhow::Error::from(Failure::permanent("root"));
    for level in 0..300 {
        error = error.context(level.to_string());
    }
    let (row, error) = back(codec, error);
    assert!(message(&row).starts_with("299: 298: ") && message(&row).ends_with(": 1: 0: root"));
    assert_eq!(chain(error.as_ref()).len(), 101);
    assert!((codec.error)(&Err(error)).unwrap().failure.is_permanent());
}

/// Derives nothing in this version of the program.
#[derive(Debug)]
struct Plainly(String);

impl fmt::Display for Plainly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Failure> for Plainly {
    fn from(failure: Failure) -> Self {
        Self(failure.chain())
    }
}

/// The same error in the next version, with the derives.
#[derive(Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{words}")]
struct Derived {
    words: String,
}

impl From<Failure> for Derived {
    fn from(failure: Failure) -> Self {
        Self { words: failure.chain() }
    }
}

#[test]
fn a_derive_that_is_added_or_removed_later_still_reads_old_rows() {
    let before = crate::__outcome!(Result<(), Plainly>, json);
    let after = crate::__outcome!(Result<(), Derived>, json);
    let old = (before.encode)(&Err(Plainly("no stock".into()))).unwrap();
    let new = (after.encode)(&Err(Derived { words: "no stock".into() })).unwrap();
    assert_eq!(encoding(&old), Some(ErrorEncoding::Failure));
    assert_eq!(encoding(&new), Some(ErrorEncoding::Value));
    assert_eq!((after.decode)(&old).unwrap(), Err(Derived { words: "no stock".into() }));
    assert_eq!((before.decode)(&new).unwrap().unwrap_err().0, "no stock");

    let closed = crate::__outcome!(Result<(), Bank>, json);
    let message = (closed.decode)(&old).unwrap_err().to_string();
    assert!(message.contains("Bank`, which is stored as itself") && message.ends_with("no stock"), "{message}");
}

/// An error whose own `Serialize` fails.
#[derive(Debug, Deserialize, thiserror::Error)]
#[error("socket 7 is closed")]
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("a socket cannot be written"))
    }
}

/// The same, with a way back.
#[derive(Debug, Deserialize, thiserror::Error)]
#[error("{0}")]
struct UnwritableButRevived(String);

impl Serialize for UnwritableButRevived {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("a socket cannot be written"))
    }
}

impl From<Failure> for UnwritableButRevived {
    fn from(failure: Failure) -> Self {
        Self(failure.chain())
    }
}

#[test]
fn an_error_that_does_not_serialize_is_recorded_in_words() {
    let codec = crate::__outcome!(Result<(), UnwritableButRevived>, json);
    let (row, error) = back(codec, UnwritableButRevived("socket 7 is closed".into()));
    assert_eq!(encoding(&row), Some(ErrorEncoding::Failure));
    assert_eq!(error.0, "socket 7 is closed");

    let codec = crate::__outcome!(Result<(), Unwritable>, json);
    let message = (codec.encode)(&Err(Unwritable)).unwrap_err().to_string();
    assert!(message.contains("::Unwritable`: the value does not serialize: a socket"), "{message}");
    assert_eq!((codec.error)(&Err(Unwritable)).unwrap().failure.message(), "socket 7 is closed");
}

fn generic<T: Serialize + DeserializeOwned, E: From<Failure> + fmt::Display>() -> OutcomeCodec<Result<T, E>> {
    crate::__outcome!(Result<T, E>, json)
}

#[test]
fn a_generic_return_type_is_picked_by_its_bounds() {
    let codec = generic::<u8, Derived>();
    let (row, error) = back(codec, Derived { words: "no".into() });
    assert_eq!((encoding(&row), error.words.as_str()), (Some(ErrorEncoding::Failure), "no"));
    assert!(codec.from_failure.is_some());
}

#[test]
fn an_unknown_codec_is_named() {
    let codec = crate::__outcome!(u8, json);
    let row = Outcome::Done(Payload { codec: 7, data: Data::Bytes(vec![1]) });
    let message = (codec.decode)(&row).unwrap_err().to_string();
    assert!(message.starts_with("payload was written with codec 7, which this build does not know: "), "{message}");
    let row = Outcome::Done(Payload { codec: 1, data: Data::Bytes(vec![1]) });
    assert!((codec.decode)(&row).unwrap_err().to_string().contains("in the other column"));
}

#[cfg(not(feature = "bincode"))]
#[test]
fn a_build_without_bincode_says_how_to_get_it() {
    let codec = crate::__outcome!(u8, json);
    let row = Outcome::Done(Payload { codec: 2, data: Data::Bytes(vec![1]) });
    let message = (codec.decode)(&row).unwrap_err().to_string();
    assert!(message.ends_with("enable the feature `bincode` of `durable`"), "{message}");
    assert_eq!(
        Codec::Bincode.encode(&1).unwrap_err().to_string(),
        message.replace("can't be read", "can't be written")
    );
}

#[cfg(feature = "bincode")]
#[test]
fn codecs_mix_in_one_history() {
    let json = crate::__outcome!(Result<Vec<f64>, Bank>, json);
    let bincode = crate::__outcome!(Result<Vec<f64>, Bank>, bincode);
    for outcome in [Ok(vec![f64::INFINITY, -0.0]), Err(Bank::Short { have: i64::MIN, need: 0 })] {
        let row = (bincode.encode)(&outcome).unwrap();
        assert_eq!(row.payload().codec, 2);
        assert_eq!((json.decode)(&row).unwrap(), outcome);
    }
    let row = (json.encode)(&Ok(vec![0.5])).unwrap();
    assert_eq!((bincode.decode)(&row).unwrap(), Ok(vec![0.5]));

    // What needs a self-describing format is found by the caller, who reads back before the row is sent.
    let value = crate::__outcome!(serde_json::Value, bincode);
    let row = (value.encode)(&serde_json::json!({"a": 1})).unwrap();
    assert!((value.decode)(&row).is_err());
    let short = crate::__outcome!(u8, bincode);
    let row = Outcome::Done(Payload { codec: 2, data: Data::Bytes(vec![1, 2]) });
    assert!((short.decode)(&row).unwrap_err().to_string().ends_with("1 bytes are left over"));
}

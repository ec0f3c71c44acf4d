//! Errors are the user's own: the first run and every replay see the same text, debug text and source chain.

use std::error::Error as StdError;
use std::fmt;

use anyhow::Context as _;
use durable::{Failure, step, workflow};
use durable_tests::everywhere;
use serde::{Deserialize, Serialize};

use crate::support::{begin, crash_and_recover, probe, reach, rows};

#[derive(Debug, thiserror::Error)]
#[error("outer {level}")]
struct Outer {
    level: u32,
    source: Inner,
}

#[derive(Debug, thiserror::Error)]
#[error("inner")]
struct Inner(#[source] std::num::ParseIntError);

fn outer(level: u32) -> Outer {
    Outer { level, source: Inner("x".parse::<i32>().unwrap_err()) }
}

/// An enum of the program's own that takes what it can't know.
#[derive(Debug)]
enum Own {
    Known(u32),
    Other(Failure),
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(number) => write!(f, "known {number}"),
            Self::Other(_) => f.write_str("other"),
        }
    }
}

impl StdError for Own {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Known(_) => None,
            Self::Other(failure) => Some(failure),
        }
    }
}

impl From<Failure> for Own {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

#[derive(Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
enum Stored {
    #[error("account {account} lacks {cents} cents")]
    Poor { account: i64, cents: u64 },
    #[error("closed: {0:?}")]
    Closed(Vec<String>),
}

#[step]
async fn with_anyhow() -> anyhow::Result<()> {
    probe().hit("body");
    Err(outer(1)).context("while reading").context("at start")
}

#[step]
async fn with_eyre() -> eyre::Result<()> {
    probe().hit("body");
    Err(eyre::Report::new(outer(2)).wrap_err("while writing"))
}

#[step]
async fn with_box() -> Result<(), Box<dyn StdError + Send + Sync>> {
    probe().hit("body");
    Err(Box::new(outer(3)))
}

#[step]
async fn with_own() -> Result<(), Own> {
    probe().hit("body");
    Err(Own::Known(4))
}

#[step]
async fn with_stored(poor: bool) -> Result<(), Stored> {
    probe().hit("body");
    if poor {
        Err(Stored::Poor { account: i64::MIN, cents: u64::MAX })
    } else {
        Err(Stored::Closed(vec!["a\0b".into()]))
    }
}

#[step]
async fn with_string() -> Result<(), String> {
    probe().hit("body");
    Err("only words".to_owned())
}

/// The debug text; a backtrace, which the environment may ask for, is of where the error was made again.
fn without_backtrace(error: &dyn fmt::Debug) -> String {
    let text = format!("{error:?}");
    text.split("\n\nStack backtrace:").next().unwrap_or_default().to_owned()
}

fn describe(error: &(dyn StdError + 'static)) -> String {
    let chain: Vec<_> = std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect();
    format!("{error} / {error:?} / {}", chain.join(" < "))
}

#[step]
async fn hold() {
    probe().gate("hold").await;
}

#[workflow]
async fn all_kinds() -> Vec<String> {
    let anyhow = with_anyhow().await.unwrap_err();
    let eyre = with_eyre().await.unwrap_err();
    let described = vec![
        format!("{} {anyhow:#} {}", without_backtrace(&anyhow), describe(anyhow.as_ref())),
        format!("{} {eyre:#} {}", without_backtrace(&eyre), describe(eyre.as_ref())),
        describe(with_box().await.unwrap_err().as_ref()),
        describe(&with_own().await.unwrap_err()),
        describe(&with_stored(true).await.unwrap_err()),
        describe(&with_stored(false).await.unwrap_err()),
        with_string().await.unwrap_err(),
    ];
    described.iter().for_each(|line| probe().note(line));
    hold().await;
    described
}

#[workflow]
async fn ends_with_anyhow() -> anyhow::Result<()> {
    Err(outer(9)).context("at the end")
}

#[workflow]
async fn ends_with_stored() -> Result<(), Stored> {
    Err(Stored::Poor { account: 1, cents: 2 })
}

everywhere! {
    async fn the_first_run_and_a_replay_see_the_same_error(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { all_kinds::start().id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.reached("hold", 2).await;
        probe.open("hold");
        let described = reach::<all_kinds>(&next, "w").await.result().await.unwrap();
        assert_eq!(probe.hits("body"), 7);
        let notes = probe.notes();
        let (first, replay) = notes.split_at(7);
        assert_eq!(first, replay);
        assert_eq!(replay, described);
        // What it was, and not only twice the same.
        let chain = "at start < while reading < outer 1 < inner < invalid digit found in string";
        assert!(described[0].ends_with(chain), "{}", described[0]);
        assert!(described[1].ends_with("while writing < outer 2 < inner < invalid digit found in string"), "{}", described[1]);
        assert!(described[2].ends_with("outer 3 < inner < invalid digit found in string"), "{}", described[2]);
        assert!(described[3].ends_with("other < known 4"), "{}", described[3]);
        assert_eq!(described[4], format!(
            "account {0} lacks {1} cents / Poor {{ account: {0}, cents: {1} }} / account {0} lacks {1} cents", i64::MIN, u64::MAX
        ));
        assert_eq!(described[6], "only words");
    }

    async fn how_an_error_was_stored_is_a_column(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("hold");
        runtime.enter(async { all_kinds::start().id("w").await.unwrap().result().await.unwrap() }).await;
        assert_eq!(
            rows(&database, "SELECT step_name, error_encoding, error_message FROM workflow_steps WHERE status = 'error' ORDER BY seq").await,
            [
                "with_anyhow|failure|at start: while reading: outer 1: inner: invalid digit found in string",
                "with_eyre|failure|while writing: outer 2: inner: invalid digit found in string",
                "with_box|failure|outer 3: inner: invalid digit found in string",
                "with_own|failure|known 4",
                "with_stored|value|account -9223372036854775808 lacks 18446744073709551615 cents",
                "with_stored|value|closed: [\"a\\0b\"]",
                "with_string|value|only words",
            ]
        );
    }

    async fn a_workflows_error_reads_the_same_here_and_from_the_row(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let here = runtime.enter(async {
            let anyhow = ends_with_anyhow::start().id("a").await.unwrap().result().await.unwrap().unwrap_err();
            let stored = ends_with_stored::start().id("s").await.unwrap().result().await.unwrap().unwrap_err();
            (describe(anyhow.as_ref()), stored)
        }).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        let anyhow = reach::<ends_with_anyhow>(&next, "a").await.result().await.unwrap().unwrap_err();
        let stored = reach::<ends_with_stored>(&next, "s").await.result().await.unwrap().unwrap_err();
        assert_eq!(here, (describe(anyhow.as_ref()), stored));
        assert!(here.0.ends_with("at the end < outer 9 < inner < invalid digit found in string"), "{}", here.0);
        assert_eq!(here.1, Stored::Poor { account: 1, cents: 2 });
    }
}

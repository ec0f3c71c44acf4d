//! What the attributes accept, what they say where they refuse, and that a step is the async fn it was.
//!
//! `ui/pass` has one file per family of signatures, `ui/fail` one per refusal with the message it must print; messages
//! are renewed with `TRYBUILD=overwrite cargo test -p durable-tests --test macros`. That no lint finds anything in an
//! expansion is shown by `cargo clippy` on `durable-strict`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::pin::pin;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use durable::step;

mod by_hand;

/// The cases share one package on disk: each waits for its turn before its time starts.
static TURN: Mutex<()> = Mutex::new(());

/// Five times what two busy cores took.
const FIVE_HUNDRED_WORKFLOWS: Duration = Duration::from_secs(120);

#[test]
fn signatures_compile_and_refusals_point_at_the_token() {
    let _turn = TURN.lock();
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}

#[test]
fn five_hundred_workflows_compile_within_the_limit() {
    let _turn = TURN.lock();
    let build = |path| {
        let begun = Instant::now();
        let cases = trybuild::TestCases::new();
        cases.pass(path);
        drop(cases);
        begun.elapsed()
    };
    // The first builds the library as well.
    build("tests/ui/many/one_workflow.rs");
    let taken = build("tests/ui/many/five_hundred_workflows.rs");
    assert!(taken < FIVE_HUNDRED_WORKFLOWS, "{taken:?}");
}

/// Says when it is dropped.
struct Noted(&'static str, Log);

type Log = Sender<&'static str>;

impl Drop for Noted {
    fn drop(&mut self) {
        // The test has ended if nobody listens any more.
        let _ = self.1.send(self.0);
    }
}

/// Expands to the same function twice: plain, and as a step.
macro_rules! plain_and_step {
    ($plain:ident, $step:ident, ($($argument:pat_param => $ty:ty),*), $body:block) => {
        async fn $plain($($argument: $ty),*) {
            $body
        }

        #[step]
        async fn $step($($argument: $ty),*) {
            $body
        }
    };
}

plain_and_step!(
    plain,
    as_step,
    (log => Log, _unused => Noted, _ => Noted, (_first, _) => (Noted, Noted)),
    {
        let _local = Noted("local", log.clone());
        std::future::ready(()).await;
    }
);

/// The order of drops for a future that is polled to its end, or dropped before the first poll.
fn drops<F: Future<Output = ()>>(call: fn(Log, Noted, Noted, (Noted, Noted)) -> F, polled: bool) -> Vec<&'static str> {
    let (log, order) = channel();
    let noted = |word| Noted(word, log.clone());
    let future = call(log.clone(), noted("a"), noted("b"), (noted("c"), noted("d")));
    drop(noted("called"));
    if polled {
        let mut future = pin!(future);
        assert_eq!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        drop(noted("ready"));
    } else {
        drop(future);
    }
    order.try_iter().collect()
}

#[test]
fn arguments_live_as_long_as_in_a_plain_async_fn() {
    for polled in [true, false] {
        let expected = drops(plain, polled);
        assert_eq!(drops(as_step, polled), expected);
        assert_eq!((expected[0], expected.len()), ("called", if polled { 7 } else { 5 }));
    }
}

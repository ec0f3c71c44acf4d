//! Concurrency inside a workflow: `join!`, `try_join!` and `map`, each arm a branch with its own counter.
//!
//! Guarantees that steps replay in their own arm whatever the latencies, and that a `try_join!` that ended early ends
//! by the same arm again. Layer: workflow.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};

use futures_util::stream::{FuturesUnordered, Stream};

use super::call::{Call, never};
use super::scope::{Branch, Scope, in_scope, scope, within};
use super::step::StepMeta;

use crate::error::Failure;
use crate::ids::child_branch;
use crate::replay::RACE;

/// The arms of one concurrent call. Made by the macros.
#[doc(hidden)]
pub struct Arms {
    call: Option<Arc<Call>>,
    next: AtomicUsize,
    /// Set by the first arm that ends a `try_join!` early.
    decided: AtomicBool,
    started_at: i64,
}

/// Opens the branches of a concurrent call: takes one index of the current branch.
#[doc(hidden)]
#[track_caller]
pub fn concurrent(name: &'static str) -> Arms {
    let meta = StepMeta { name, file: file!(), line: line!(), column: column!() };
    let call = match scope() {
        Some(Scope::Body { .. }) => Call::claim(meta, RACE, None, Location::caller()).map(Arc::new),
        // In a step, or plainly, arms are ordinary futures.
        _ => None,
    };
    if let Some(call) = &call {
        call.check();
    }
    let started_at = call.as_ref().map_or(0, |call| call.clock_now());
    Arms { call, next: AtomicUsize::new(0), decided: AtomicBool::new(false), started_at }
}

impl Arms {
    fn scope(&self, arm: usize) -> Option<Scope> {
        self.call
            .as_ref()
            .map(|call| Scope::Body { context: call.home().0, branch: Branch::new(child_branch(&call.key, arm)) })
    }
}

/// The next arm, run in its branch.
#[doc(hidden)]
pub fn arm<F: Future>(arms: &Arms, future: F) -> impl Future<Output = F::Output> {
    let scope = arms.scope(arms.next.fetch_add(1, Ordering::Relaxed));
    async move {
        match scope {
            Some(scope) => in_scope(scope, future).await,
            None => future.await,
        }
    }
}

/// The next arm of a `try_join!`. The first that fails is recorded before the others are dropped, and on replay the
/// others stay where they were.
#[doc(hidden)]
pub async fn try_arm<T, E, F: Future<Output = Result<T, E>>>(arms: &Arms, future: F) -> Result<T, E> {
    let number = arms.next.fetch_add(1, Ordering::Relaxed);
    let (Some(scope), Some(call)) = (arms.scope(number), arms.call.as_ref()) else { return future.await };
    let loser = call.recorded_failure().await;
    match loser.as_deref() {
        Some(loser) if loser != number.to_string() => return never().await,
        _ => {}
    }
    let end = in_scope(scope, future).await;
    if end.is_err() && loser.is_none() {
        if arms.decided.swap(true, Ordering::Relaxed) {
            return never().await;
        }
        let failure = Failure::new(number.to_string());
        // What comes back is the arm that counts: our own, unless another owner recorded first.
        let recorded: Result<(), Failure> =
            call.record(crate::__outcome!(Result<(), Failure>, json), Ok(Err(failure)), 1, arms.started_at, None).await;
        if recorded.is_err_and(|arm| arm.message() != number.to_string()) {
            return never().await;
        }
    } else if end.is_ok() && loser.is_some() {
        call.block_race(number);
        return never().await;
    }
    end
}

/// Runs futures concurrently inside a workflow and gives back all their outputs, in the order of the arms. Each arm
/// is a branch of its own, so arms of several steps replay rightly.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(durable::plain(async {
/// let (a, b) = durable::join!(async { 1 }, async { 2 });
/// assert_eq!(a + b, 3);
/// # }));
/// ```
#[macro_export]
macro_rules! join {
    ($($arm:expr),+ $(,)?) => {{
        let arms = $crate::__private::concurrent("join");
        $crate::__private::tokio::join!($($crate::__private::arm(&arms, async { ($arm).await })),+)
    }};
}

/// Runs fallible futures concurrently inside a workflow: all their values, or the error of the arm that failed
/// first, which is recorded. Each arm is a branch of its own. The other arms are dropped where they stand.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(durable::plain(async {
/// let both = async { let (a, b) = durable::try_join!(async { Ok::<_, String>(1) }, async { Ok(2) })?; Ok::<_, String>(a + b) };
/// assert_eq!(both.await, Ok(3));
/// # }));
/// ```
#[macro_export]
macro_rules! try_join {
    ($($arm:expr),+ $(,)?) => {{
        let arms = $crate::__private::concurrent("try_join");
        $crate::__private::tokio::try_join!($($crate::__private::try_arm(&arms, async { ($arm).await })),+)
    }};
}

/// Calls `f` for every item, at most `limit` at a time (0 counts as 1), and gives back the outputs in the order of
/// the items. Each item is a branch of its own: its closure is called and its future polled there.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(durable::plain(async {
/// let squares = durable::map([1, 2, 3], 2, |n| async move { n * n }).await;
/// assert_eq!(squares, [1, 4, 9]);
/// # }));
/// ```
#[track_caller]
pub fn map<I, F, Fut>(items: I, limit: usize, f: F) -> Map<I::Item, F, Fut>
where
    I: IntoIterator,
    F: FnMut(I::Item) -> Fut,
    Fut: Future,
{
    let items: Vec<I::Item> = items.into_iter().collect();
    Map {
        results: items.iter().map(|_| None).collect(),
        items: items.into_iter().enumerate(),
        limit: limit.max(1),
        f,
        arms: concurrent("map"),
        running: FuturesUnordered::new(),
    }
}

/// The future of [`map`].
#[must_use = "a map does nothing unless awaited"]
pub struct Map<T, F, Fut: Future> {
    items: std::iter::Enumerate<std::vec::IntoIter<T>>,
    limit: usize,
    f: F,
    arms: Arms,
    running: FuturesUnordered<Pin<Box<Item<Fut>>>>,
    results: Vec<Option<Fut::Output>>,
}

// Nothing in it is pinned in place: the running futures have boxes of their own.
impl<T, F, Fut: Future> Unpin for Map<T, F, Fut> {}

impl<T, F, Fut> Future for Map<T, F, Fut>
where
    F: FnMut(T) -> Fut,
    Fut: Future,
{
    type Output = Vec<Fut::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            while this.running.len() < this.limit {
                let Some((number, item)) = this.items.next() else { break };
                let scope = this.arms.scope(number);
                let future = match &scope {
                    Some(scope) => within(scope.clone(), || (this.f)(item)),
                    None => (this.f)(item),
                };
                this.running.push(Box::pin(Item { number, scope, future }));
            }
            match Pin::new(&mut this.running).poll_next(cx) {
                Poll::Ready(Some((number, output))) => {
                    if let Some(slot) = this.results.get_mut(number) {
                        *slot = Some(output);
                    }
                }
                Poll::Ready(None) => return Poll::Ready(this.results.drain(..).flatten().collect()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

pin_project_lite::pin_project! {
    struct Item<Fut> {
        number: usize,
        scope: Option<Scope>,
        #[pin]
        future: Fut,
    }
}

impl<Fut: Future> Future for Item<Fut> {
    type Output = (usize, Fut::Output);

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let number = *this.number;
        match this.scope {
            Some(scope) => within(scope.clone(), || this.future.poll(cx)),
            None => this.future.poll(cx),
        }
        .map(|output| (number, output))
    }
}

//! What running code can ask: who am I, what time is it, a number that stays the same. Layer: workflow.

use std::future::Future;
use std::panic::Location;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::call::{Begin, Call};
use super::misuse::misuse;
use super::random::{Random, Uuid, derive};
use super::scope::{Scope, present, scope};
use super::step::{StepMeta, guarded};

use crate::ids::StepKey;

/// The id of the workflow that runs this code.
///
/// # Panics
/// Outside of a workflow and of a step.
#[track_caller]
pub fn workflow_id() -> String {
    match scope() {
        Some(Scope::Body { context, .. } | Scope::Step { context, .. }) => context.workflow_id.to_string(),
        Some(Scope::Plain) => "plain".to_owned(),
        None => outside("workflow_id()"),
    }
}

/// A key for calls to others that is the same in every attempt of this step, across retries and crashes, and that no
/// other step has: 32 hexadecimal digits. Under [`plain`](crate::plain) it is random.
///
/// # Panics
/// Outside of a step's body: in the body of a workflow use [`uuid()`].
#[track_caller]
pub fn idempotency_key() -> String {
    match scope() {
        Some(Scope::Step { context, key, .. }) => derive(&context, &key, "idempotency").simple(),
        Some(Scope::Plain) => Uuid::fresh().simple(),
        None if !present() => Uuid::fresh().simple(),
        Some(Scope::Body { .. }) | None => misuse(
            "`durable::idempotency_key()` was called outside of a step",
            Location::caller(),
            "call it in the body of a `#[step]` function",
        ),
    }
}

/// Resolves when the step that runs this code is asked to end: its workflow was cancelled, or the process shuts
/// down. It then has `cancel_grace` (5 s unless set otherwise) to return; what it returns is still recorded.
///
/// Outside of a step it never resolves: a workflow's own code is dropped where it stands.
///
/// # Cancel safety
/// Cancel safe.
pub async fn cancelled() {
    match scope() {
        Some(Scope::Step { context, .. }) => context.stop.requested().await,
        _ => std::future::pending().await,
    }
}

/// The time, recorded: every replay sees the same. The database's clock, and never before what an earlier call in
/// this workflow gave.
///
/// # Panics
/// With a runtime, but outside of a workflow.
#[track_caller]
pub fn now() -> impl Future<Output = SystemTime> + Send {
    let meta = StepMeta { name: "now", file: file!(), line: line!(), column: column!() };
    let call = Call::claim(meta, "now", None, Location::caller());
    guarded(call.as_ref().map(Call::home), async move {
        let Some(call) = call else { return SystemTime::now() };
        let codec = crate::__outcome!(i64, json);
        let micros = match call.begin(codec).await {
            Begin::Value(micros) => call.context.not_before(micros),
            Begin::Run(_) => {
                let now = call.context.not_before(call.clock_now());
                call.record(codec, Ok(now), 1, now, None).await
            }
        };
        UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    })
}

/// A UUID that every replay sees again, derived from the workflow's seed and the position of the call. Not recorded.
///
/// # Panics
/// With a runtime, but outside of a workflow.
#[track_caller]
pub fn uuid() -> Uuid {
    match claim("uuid()") {
        Some((context, key)) => derive(&context, &key, "uuid"),
        None => Uuid::fresh(),
    }
}

/// A random value that every replay sees again, derived like [`uuid()`]. Not for secrets.
///
/// # Panics
/// With a runtime, but outside of a workflow.
#[track_caller]
pub fn random<T: Random>() -> T {
    let bits = match claim("random()") {
        Some((context, key)) => derive(&context, &key, "random").as_u128(),
        None => Uuid::fresh().as_u128(),
    };
    T::from_bits(bits)
}

/// A position for a value that is not recorded; `None` where calls are plain.
#[track_caller]
fn claim(what: &str) -> Option<(std::sync::Arc<super::Context>, StepKey)> {
    match scope() {
        Some(Scope::Body { context, branch }) => Some((context, branch.claim())),
        // In a step it need not repeat: what the step returns is recorded.
        Some(Scope::Step { .. } | Scope::Plain) => None,
        None if !present() => None,
        None => outside(what),
    }
}

#[track_caller]
fn outside(what: &str) -> ! {
    misuse(
        &format!("`durable::{what}` was called outside of a workflow"),
        Location::caller(),
        "call it from a `#[workflow]` function, or under `durable::plain(async { .. })` in a unit test",
    )
}

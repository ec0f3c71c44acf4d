//! The attributes of `durable`: [`macro@step`] and [`macro@workflow`]. Use them through the crate `durable`.
//!
//! Each attribute is three phases in three files: parse (what is written), lower (what is refused), expand (what
//! comes out). All errors of one item are reported at once, each at the token it is about, and the item is emitted as
//! it was written, so that editors keep working in it.
//!
//! An expansion is the body, once and with its spans, and a few calls with absolute paths into the library. It holds
//! no loop, no SQL and no retry logic, and it grows with the number of arguments by those arguments alone.

mod attribute;
mod duration;
mod errors;
mod function;
mod library;
mod refuse;
mod retry;
mod step;
#[cfg(test)]
mod tests;
mod workflow;

use proc_macro::TokenStream;

/// Makes an async function a step: one side effect whose outcome is recorded, and that never runs again once it is.
///
/// The function is called as before. What it returns is a `durable::StepFuture`, which is `#[must_use]`; the step's
/// place in the history is taken by the call itself, not by the first poll. Free functions, methods, methods of
/// traits (with and without a body) and of their implementations, references, generics, `impl Trait` and
/// const-generic arguments, patterns and `mut` work as in a plain `async fn`. Arguments and outcome must be `Send`;
/// the outcome must be storable: `Serialize + DeserializeOwned`, or a `Result` of such a value and an error that is
/// either serializable too or made from a `durable::Failure`, as `anyhow::Error`, `String` and
/// `Box<dyn Error + Send + Sync>` are.
///
/// A method of a trait that is written without a body only has its signature rewritten; each implementation carries
/// an attribute of its own.
///
/// # Options
///
/// | Option | Meaning | Default |
/// |---|---|---|
/// | `name = "charge card"` | The name in the history. Replay compares it, so a function can be renamed when this stays. | the function's name |
/// | `retry`, `retry(..)` | Runs the body again when it fails, see below. | one attempt |
/// | `timeout = "30s"` | Ends an attempt that takes longer; it counts as failed. Zero is refused. | no limit |
/// | `codec = "json"` | How the outcome is stored: `"json"`, or `"bincode"` with the library's feature `bincode`. | `"json"` |
/// | `crate = "path"` | Where the library is, for crates that have it under another name. | `"::durable"` |
///
/// Inside `retry(..)`:
///
/// | Option | Meaning | Default |
/// |---|---|---|
/// | `max_attempts = 5` | All attempts, the first one included: 1 is a run without retries, 0 is refused. | 3 |
/// | `initial = "1s"` | The pause before the second attempt. Zero tries again at once. | 1 s |
/// | `factor = 2` | What each pause is multiplied with to make the next; at least 1. | 2 |
/// | `max = "1m"` | The longest pause; at least `initial`. | 1 min |
/// | `jitter` | Whether pauses are spread at random: `jitter`, `jitter = true` or `jitter = false`. | true |
/// | `when = path` | A `fn(&E) -> bool` that says which errors another attempt may cure; `false` ends the step with that error. | every error |
///
/// A duration is a whole number and its unit: `ms`, `s`, `m` (minutes), `h` or `d`.
///
/// A step with `retry` clones its arguments for each attempt; references are passed on as they are. It cannot take
/// `&mut` arguments, `&mut self` or `self` by value.
///
/// `transaction` is a word of a later version and is refused until then.
///
/// # Refused
///
/// A function that is not `async`, or is `const`, `unsafe` or `extern`; a return type that is `!`, `impl Trait` or
/// borrows; `#[tracing::instrument]` below the attribute, where the span would end before the body runs.
#[proc_macro_attribute]
pub fn step(attribute: TokenStream, item: TokenStream) -> TokenStream {
    errors::emit(step::step(attribute.into(), item.clone().into()), item.into()).into()
}

/// Makes an async function a workflow: deterministic code that a crash cannot lose, run again from the top with the
/// recorded outcomes of its steps.
///
/// Besides the function there comes out a type of the same name and visibility. `digest(doc).await` runs the workflow
/// and waits; `digest::start(doc)` is a `durable::Start`, which names the run with `.id(..)` and stores it when it is
/// awaited; `durable::handle::<digest>(id)` reaches it later. The type implements `durable::Workflow` and is
/// registered with the program, so that any process that links it can continue the run.
///
/// Arguments are owned and serializable. They are stored as one object with a field per parameter, named after it: a
/// parameter that is a pattern is `arg0`, `arg1`, … after its position, and `r#type` is `type`. Renaming or removing a
/// parameter therefore changes what is read back; adding one of type `Option` does not.
///
/// The outcome is stored as a step's is.
///
/// # Options
///
/// | Option | Meaning | Default |
/// |---|---|---|
/// | `name = "daily digest"` | The name under which runs are stored and found again. | the function's name |
/// | `version = 2` | From 0 to 4294967295. A run stays with the version that it was started with; name and version are unique in a program. | 1 |
/// | `type = Digest` | The name of the type, where something else already has the function's. | the function's name |
/// | `queue = "mail"` | The queue of runs that are started without one; it exists from the program's start on. | `default` |
/// | `retry`, `retry(..)` | Runs a failed run again, as a new workflow attempt: recorded steps stay, and the step whose error ended it runs again. Options as for a step, without `when`; a `durable::Failure::permanent` ends it at once. After the last attempt it is `dead`. | one attempt, then `failed` |
/// | `codec = "json"` | How arguments and outcome are stored: `"json"`, or `"bincode"` with the library's feature `bincode`. | `"json"` |
/// | `crate = "path"` | Where the library is, for crates that have it under another name. | `"::durable"` |
///
/// `schedule` and `timezone` are words of a later version and are refused until then.
///
/// # Refused
///
/// What a step refuses, and whatever another process could not start from the database: references among the
/// arguments, generics, `impl Trait` arguments and `self`.
#[proc_macro_attribute]
pub fn workflow(attribute: TokenStream, item: TokenStream) -> TokenStream {
    errors::emit(workflow::workflow(attribute.into(), item.clone().into()), item.into()).into()
}

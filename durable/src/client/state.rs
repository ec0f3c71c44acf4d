//! Values that a program gives its runtime. Layer: client.

use std::any::{Any, TypeId};
use std::panic::Location;
use std::sync::Arc;

use super::engine;
use crate::workflow::{Scope, misuse, scope};

/// A value that `Builder::state` put there, by type.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let runtime = durable::Builder::new().url("sqlite::memory:").state(String::from("hello")).build().await?;
/// let greeting = runtime.enter(async { durable::state::<String>() }).await;
/// assert_eq!(*greeting, "hello");
/// # runtime.shutdown().await;
/// # Ok::<_, durable::Error>(())
/// # }).unwrap();
/// ```
///
/// # Panics
/// If no value of this type was given to the runtime, or there is no runtime.
#[track_caller]
#[must_use]
pub fn state<T: Any + Send + Sync>() -> Arc<T> {
    let held = match scope() {
        Some(Scope::Body { context, .. } | Scope::Step { context, .. }) => {
            context.services.state.get(&TypeId::of::<T>()).cloned()
        }
        _ => engine("`durable::state()`").services.state.get(&TypeId::of::<T>()).cloned(),
    };
    match held.and_then(|value| value.downcast::<T>().ok()) {
        Some(value) => value,
        None => misuse(
            &format!("no state of the type `{}`", std::any::type_name::<T>()),
            Location::caller(),
            "give it to the runtime with `Builder::state(value)`",
        ),
    }
}

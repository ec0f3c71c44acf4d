//! Panics in user code: caught, and recorded with message and place. Layer: workflow.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::error::{Failure, FailureKind};

thread_local! {
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Notes where a panic happened, then does what the program's own hook does. Installed once, with the first runtime;
/// a hook that the program sets later replaces it, and recorded panics then have no place.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PLACE.set(info.location().map(ToString::to_string));
            before(info);
        }));
    });
}

/// Drops what is the user's. A panic in that says nothing that could be recorded, and its own payload is left alone: it
/// may panic when dropped, too.
pub(crate) fn discard<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(payload);
    }
}

/// A caught panic in words.
pub(crate) fn words(what: &str, payload: Box<dyn Any + Send>) -> Failure {
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a payload that is no text".to_owned());
    let place = PLACE.take().map(|place| format!(" at {place}")).unwrap_or_default();
    discard(payload);
    Failure::new(format!("{what} panicked{place}: {message}")).with_kind(FailureKind::Panic)
}

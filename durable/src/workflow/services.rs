//! What a workflow needs of its runtime. Layer: workflow.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use crate::clock::DatabaseClock;
use crate::event::Event;

/// Values by type, put there by `Builder::state`.
pub(crate) type StateMap = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// Sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) payload_warn: usize,
    pub(crate) payload_max: usize,
}

/// A hook for events.
pub(crate) type EventHook = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// What a workflow needs of its runtime.
pub(crate) struct Services {
    pub(crate) clock: DatabaseClock,
    pub(crate) hook: Option<EventHook>,
    pub(crate) state: StateMap,
    pub(crate) limits: Limits,
}

impl Services {
    /// Tells the program's hook. Called after the commit that the event is about.
    pub(crate) fn emit(&self, event: &Event<'_>) {
        if let Some(hook) = &self.hook {
            // A hook that panics must not take the engine's task with it.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hook(event))).is_err() {
                tracing::error!(?event, "the event hook panicked");
            }
        }
    }
}

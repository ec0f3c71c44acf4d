//! The current runtime: the one a future was entered into, else the process default that `init` sets. Layer: executor.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use super::engine::Engine;
use crate::workflow::{entered, mark_present};

tokio::task_local! {
    static CURRENT: Arc<Engine>;
}

static DEFAULT: RwLock<Option<Arc<Engine>>> = RwLock::new(None);

/// The current runtime's engine.
pub(crate) fn current() -> Option<Arc<Engine>> {
    CURRENT.try_with(Arc::clone).ok().or_else(|| DEFAULT.read().unwrap_or_else(PoisonError::into_inner).clone())
}

/// Runs a future with this runtime as the current one.
pub(crate) fn enter<F: Future>(engine: Arc<Engine>, future: F) -> impl Future<Output = F::Output> {
    entered(CURRENT.scope(engine, future))
}

/// Makes a runtime the process default. `false` if there is another that is not closed.
pub(crate) fn set_default(engine: &Arc<Engine>) -> bool {
    let mut default = DEFAULT.write().unwrap_or_else(PoisonError::into_inner);
    if default.as_ref().is_some_and(|held| !held.is_closing()) {
        return false;
    }
    *default = Some(Arc::clone(engine));
    mark_present(true);
    true
}

/// Takes a runtime back from being the default.
pub(crate) fn unset_default(engine: &Arc<Engine>) {
    let mut default = DEFAULT.write().unwrap_or_else(PoisonError::into_inner);
    if default.as_ref().is_some_and(|held| Arc::ptr_eq(held, engine)) {
        *default = None;
        mark_present(false);
    }
}

//! Where the running code stands: in a workflow's body, in a step's body, or plainly.
//!
//! Carried by a task-local that a wrapper sets on every poll, so a task spawned by the user does not inherit it.
//! Layer: workflow.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use tokio::task::futures::TaskLocalFuture;

use super::context::Context;
use crate::ids::StepKey;

tokio::task_local! {
    static SCOPE: Scope;
    /// Set inside `Runtime::enter`.
    static ENTERED: ();
}

/// True once a process default runtime is set.
static DEFAULT: AtomicBool = AtomicBool::new(false);

/// Where the running code stands.
#[derive(Clone)]
pub(crate) enum Scope {
    /// In the body of a workflow.
    Body { context: Arc<Context>, branch: Arc<Branch> },
    /// In the body of a step: a leaf.
    Step { context: Arc<Context>, key: StepKey, name: &'static str },
    /// Under [`plain`](crate::plain): nothing is recorded.
    Plain,
}

/// A branch and its counter.
pub(crate) struct Branch {
    path: Arc<str>,
    next: AtomicI32,
}

impl Branch {
    pub(crate) fn new(path: Arc<str>) -> Arc<Self> {
        Arc::new(Self { path, next: AtomicI32::new(0) })
    }

    /// Takes the next index of this branch.
    pub(crate) fn claim(&self) -> StepKey {
        StepKey { branch: Arc::clone(&self.path), index: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

/// The scope of the running code, if it has one.
pub(crate) fn scope() -> Option<Scope> {
    SCOPE.try_with(Clone::clone).ok()
}

/// True if the running code is in a body of `context`, on whatever branch.
pub(super) fn is_body_of(context: &Arc<Context>) -> bool {
    SCOPE
        .try_with(|scope| matches!(scope, Scope::Body { context: here, .. } if Arc::ptr_eq(here, context)))
        .unwrap_or(false)
}

/// Runs a future in a scope.
pub(crate) fn in_scope<F: Future>(scope: Scope, future: F) -> TaskLocalFuture<Scope, F> {
    SCOPE.scope(scope, future)
}

/// Calls a function in a scope.
pub(super) fn within<T>(scope: Scope, f: impl FnOnce() -> T) -> T {
    SCOPE.sync_scope(scope, f)
}

/// True if there is a runtime that could record a call made here.
pub(crate) fn present() -> bool {
    DEFAULT.load(Ordering::Relaxed) || ENTERED.try_with(|()| ()).is_ok()
}

/// Notes that the process has a default runtime, or that it has none any more.
pub(crate) fn mark_present(present: bool) {
    DEFAULT.store(present, Ordering::Relaxed);
}

/// Marks a future as run by a runtime.
pub(crate) fn entered<F: Future>(future: F) -> TaskLocalFuture<(), F> {
    ENTERED.scope((), future)
}

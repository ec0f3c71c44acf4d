//! Step bodies that run: who is told of a stop, what is noted as running, what blocks a thread. Layer: workflow.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::since_boot;
use crate::ids::StepKey;
use crate::model::Micros;

/// A body that runs this long is noted as `running`, so that others see it.
pub(crate) const LONG: Duration = Duration::from_secs(1);

/// The step bodies of one run.
#[derive(Debug, Default)]
pub(crate) struct Bodies(Mutex<Vec<Body>>);

/// A step body that runs.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) key: StepKey,
    pub(crate) name: &'static str,
    pub(crate) attempt: i32,
    pub(crate) started_at: Micros,
    since: Duration,
    noted: bool,
}

impl Bodies {
    /// Notes a body until the guard is dropped: after its outcome is recorded.
    pub(super) fn enter(&self, key: StepKey, name: &'static str, attempt: i32, started_at: Micros) -> Running<'_> {
        let body = Body { key: key.clone(), name, attempt, started_at, since: since_boot(), noted: false };
        self.lock().push(body);
        Running { bodies: self, key }
    }

    /// True if no body runs and none waits for its record.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The names of the bodies that run.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.lock().iter().map(|body| body.name).collect()
    }

    /// The bodies that became long since the last time.
    pub(super) fn take_long(&self) -> Vec<Body> {
        let now = since_boot();
        let mut bodies = self.lock();
        let long = bodies.iter_mut().filter(|body| !body.noted && now.saturating_sub(body.since) >= LONG);
        long.map(|body| {
            body.noted = true;
            body.clone()
        })
        .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Body>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held while a body runs.
pub(super) struct Running<'a> {
    bodies: &'a Bodies,
    key: StepKey,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut bodies = self.bodies.lock();
        if let Some(at) = bodies.iter().position(|body| body.key == self.key) {
            bodies.swap_remove(at);
        }
    }
}

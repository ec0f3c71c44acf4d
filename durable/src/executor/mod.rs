//! The executor: one process incarnation that claims workflows, drives them, and shows that it lives.
//!
//! Guarantees that no user code is polled after a stop or past the lease, and that what a dead executor owned runs
//! elsewhere. Layer: above the workflow and the registry, below the runtime.

pub(crate) mod current;
mod driver;
mod endings;
mod engine;
mod enqueuer;
mod hub;
mod identity;
mod liveness;
mod settings;
mod settle;
mod start;
mod supervisor;
mod wakes;
mod watch;

pub(crate) use endings::Ending;
pub(crate) use engine::Engine;
pub(crate) use hub::Hub;
pub(crate) use settings::Settings;
pub(crate) use start::{StartRequest, same_workflow};

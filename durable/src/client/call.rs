//! The plain call: `llm_pipeline(doc).await` is a durable run with a fresh id. Layer: client.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;

use super::engine_at;
use super::handle::{LastError, WorkflowHandle};
use super::start::{nested, record};
use crate::error::{Error, Failure, FailureKind};
use crate::model::DEFAULT_QUEUE;
use crate::registry::Workflow;
use crate::workflow::{Scope, StopReason, misuse, scope};

/// Calls a workflow like the function it was written as. Dropping the future does not cancel the run.
///
/// # Panics
/// Without a runtime; and if the run ends in a way that the return type can't express: then use `start(..).result()`.
#[track_caller]
pub fn call<W: Workflow>(input: W::Input) -> impl Future<Output = W::Output> + Send + 'static {
    let site = Location::caller();
    // What counts is where the call is awaited, as for any async function.
    async move {
        match scope() {
            Some(Scope::Plain) => {
                let body: Pin<Box<dyn Future<Output = W::Output> + Send>> = Box::pin(W::body(input));
                body.await
            }
            Some(Scope::Body { context, .. } | Scope::Step { context, .. }) => {
                let failure = Failure::permanent(nested(W::NAME).to_string()).with_kind(FailureKind::Unsupported);
                match W::outcome().from_failure {
                    Some(from_failure) => from_failure(failure),
                    None => {
                        context.stop.request(StopReason::Failed(failure));
                        std::future::pending().await
                    }
                }
            }
            None => run::<W>(input, site).await.unwrap_or_else(|error| express::<W>(&error, site)),
        }
    }
}

async fn run<W: Workflow>(input: W::Input, site: &Location<'_>) -> Result<W::Output, Error> {
    let engine = engine_at(&format!("calling workflow `{}`", W::NAME), site);
    let id: Arc<str> = uuid::Uuid::now_v7().to_string().into();
    // Before the start, so that the end is heard without a question to the database.
    let ending = engine.endings.wait(&id);
    // Every queue that a workflow of this program names was made when the runtime began.
    let queue = W::QUEUE.filter(|queue| *queue != DEFAULT_QUEUE).map(Into::into);
    if let Err(error) = record::<W>(&engine, &id, queue, &input).await {
        drop(ending);
        engine.endings.tidy(&id);
        return Err(error);
    }
    drop(input);
    WorkflowHandle::<W>::new(Arc::clone(&engine.hub), id).result_from(Some(ending), LastError::IsResult).await
}

/// An error of the library's as the workflow's own.
fn express<W: Workflow>(error: &Error, site: &Location<'_>) -> W::Output {
    match W::outcome().from_failure {
        Some(from_failure) => from_failure(Failure::from_error(error).with_kind(FailureKind::Workflow)),
        None => misuse(
            &format!("workflow `{}` ended without a value: {error}", W::NAME),
            site,
            "call `start(..)` and look at `result()`, or return a `Result` whose error implements `From<durable::Failure>`",
        ),
    }
}

//! Many starts in one commit. Layer: client.

use std::panic::Location;
use std::sync::Arc;

use super::engine_at;
use super::handle::WorkflowHandle;
use super::start::{Start, enqueue, nested};
use crate::error::Error;
use crate::executor::Hub;
use crate::registry::Workflow;
use crate::workflow::{Scope, scope};

/// Starts many workflows in one commit, in their order: all are recorded, or none if the store fails.
///
/// They may run after each other ([`Start::after`]), and run where they are claimed. An id or dedup key that is taken is
/// the same as with one start; an id of another run or input, and a dedup key with
/// [`OnDuplicate::Reject`](crate::OnDuplicate::Reject), are errors that leave the others recorded, so that the same call
/// may be made again.
///
/// ```
/// # #[durable::workflow]
/// # async fn import_file(file: String) -> String { file }
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// # let runtime = durable::Builder::new().url("sqlite::memory:").build().await?;
/// # runtime.enter(async {
/// let files = ["a.csv", "b.csv"];
/// let runs = durable::start_many(files.map(|file| import_file::start(file.to_owned()).id(file))).await?;
/// assert_eq!(runs[1].result().await?, "b.csv");
/// # Ok::<_, durable::Error>(())
/// # }).await?;
/// # runtime.shutdown().await;
/// # Ok::<_, durable::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
/// As for one start.
///
/// # Panics
/// Without a runtime.
#[track_caller]
pub fn start_many<W: Workflow>(
    starts: impl IntoIterator<Item = Start<W>>,
) -> impl Future<Output = Result<Vec<WorkflowHandle<W>>, Error>> + Send {
    let site = Location::caller();
    let starts: Vec<Start<W>> = starts.into_iter().collect();
    async move {
        if let Some(Scope::Body { .. } | Scope::Step { .. }) = scope() {
            return Err(nested(W::NAME));
        }
        let engine = engine_at("starting workflows", site);
        start_all(&engine.hub, starts).await
    }
}

pub(super) async fn start_all<W: Workflow>(
    hub: &Arc<Hub>,
    starts: Vec<Start<W>>,
) -> Result<Vec<WorkflowHandle<W>>, Error> {
    let limits = hub.settings.limits;
    let rows = starts.into_iter().map(|start| start.row(limits)).collect::<Result<Vec<_>, _>>()?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let ids = enqueue(hub, rows).await?;
    Ok(ids.into_iter().map(|id| WorkflowHandle::new(Arc::clone(hub), id)).collect())
}

//! Many workflows at a time.

use std::sync::Arc;

use anyhow::Result;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Runs so many futures as tasks, so many at a time.
pub(crate) async fn at_most<F>(in_flight: usize, count: u32, mut make: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(in_flight));
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let future = make();
        tasks.spawn(async move {
            let done = future.await;
            drop(slot);
            done
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

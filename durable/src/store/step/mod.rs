//! Histories: what a recovered workflow replays. Layer: store.

mod postgres;
mod sqlite;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::Result;
use crate::model::HistoryRows;

/// Reads of checkpoints.
#[async_trait]
pub(crate) trait StepStore: Send + Sync {
    /// The histories of `ids`, each ordered by branch and index; ids without rows are absent. Two reads whatever
    /// the number of ids: outcomes, and attempts of steps without one. To be called after the claim: every write of
    /// an earlier owner has committed or is refused by then.
    async fn load_histories(&self, ids: &[Arc<str>]) -> Result<HashMap<Arc<str>, HistoryRows>>;
}

//! What a contestant's process prints: one line of JSON.

use serde::{Deserialize, Serialize};

/// The outcome of one work in one round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Steps or workflows per second; absent if the contestant does not have what the work needs.
    pub per_s: Option<f64>,
}

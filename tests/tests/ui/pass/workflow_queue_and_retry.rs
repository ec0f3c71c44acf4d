//! A queue and a retry policy are constants of the workflow's type.

use std::time::Duration;

use durable::{Workflow, workflow};

#[workflow(queue = "mail", retry(max_attempts = 4, initial = "250ms", factor = 1.5, max = "1h", jitter = false))]
async fn digest(to: String) -> Result<String, String> {
    Err(to)
}

#[workflow(retry)]
async fn plain() {}

fn main() {
    assert_eq!(digest::QUEUE, Some("mail"));
    assert_eq!(digest::RETRY.max_attempts, 4);
    assert_eq!(digest::RETRY.initial, Duration::from_millis(250));
    assert_eq!(digest::RETRY.max, Duration::from_secs(3600));
    assert_eq!(plain::QUEUE, None);
    assert_eq!(plain::RETRY.max_attempts, 3);
}

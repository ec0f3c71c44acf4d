use durable::workflow;

#[workflow(retry(max_attempts = 3, when = is_passing))]
async fn digest() {}

fn main() {}

use durable::workflow;

#[workflow(retry(max_attempts = 0))]
async fn digest() {}

fn main() {}

use durable::step;

#[step(retry(jitter, jitter = false))]
async fn charge() {}

fn main() {}

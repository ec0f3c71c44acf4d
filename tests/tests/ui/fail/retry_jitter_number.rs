use durable::step;

#[step(retry(jitter = 3))]
async fn charge() {}

fn main() {}

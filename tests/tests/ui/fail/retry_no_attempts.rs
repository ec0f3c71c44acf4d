use durable::step;

#[step(retry(max_attempts = 0))]
async fn charge() {}

fn main() {}

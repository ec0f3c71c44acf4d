use durable::step;

#[step(retry(attempts = 3))]
async fn charge() {}

fn main() {}

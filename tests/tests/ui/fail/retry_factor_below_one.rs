use durable::step;

#[step(retry(factor = 0.5))]
async fn charge() {}

fn main() {}

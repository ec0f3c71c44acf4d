use durable::step;

#[step(retry(initial = "1h"))]
async fn charge() {}

fn main() {}

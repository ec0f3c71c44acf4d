use durable::step;

#[step(retry(initial = "2m", max = "1m"))]
async fn charge() {}

fn main() {}

use durable::step;

#[step(timeout = "0s")]
async fn charge() {}

fn main() {}

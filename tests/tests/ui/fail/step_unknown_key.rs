use durable::step;

#[step(retries = 3)]
async fn charge() {}

fn main() {}

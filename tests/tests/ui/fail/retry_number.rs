use durable::step;

#[step(retry = 3)]
async fn charge() {}

fn main() {}

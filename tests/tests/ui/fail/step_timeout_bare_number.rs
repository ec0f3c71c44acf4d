use durable::step;

#[step(timeout = 30)]
async fn charge() {}

fn main() {}

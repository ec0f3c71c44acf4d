use durable::step;

#[step(name = charge)]
async fn charge() {}

fn main() {}

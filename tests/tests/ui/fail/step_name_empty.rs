use durable::step;

#[step(name = " ")]
async fn charge() {}

fn main() {}

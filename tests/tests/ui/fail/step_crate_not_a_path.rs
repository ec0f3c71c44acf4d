use durable::step;

#[step(crate = "my durable")]
async fn charge() {}

fn main() {}

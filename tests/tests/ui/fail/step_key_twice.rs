use durable::step;

#[step(name = "charge", name = "pay")]
async fn charge() {}

fn main() {}

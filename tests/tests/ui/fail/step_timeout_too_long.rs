use durable::step;

#[step(timeout = "99999999999999d")]
async fn charge() {}

fn main() {}

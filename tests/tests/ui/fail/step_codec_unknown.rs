use durable::step;

#[step(codec = "yaml")]
async fn charge() {}

fn main() {}

use durable::step;

#[step(transaction)]
async fn charge() {}

fn main() {}

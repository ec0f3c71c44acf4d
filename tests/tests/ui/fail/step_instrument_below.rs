use durable::step;

#[step]
#[tracing::instrument]
async fn charge(cents: u32) -> u32 {
    cents
}

fn main() {}

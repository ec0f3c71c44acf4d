use durable::step;

#[step]
const async fn charge(cents: u32) -> u32 {
    cents
}

fn main() {}

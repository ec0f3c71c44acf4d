use durable::step;

#[step]
fn charge(cents: u32) -> u32 {
    cents
}

fn main() {}

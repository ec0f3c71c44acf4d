use durable::step;

#[step]
async extern "C" fn charge(cents: u32) -> u32 {
    cents
}

fn main() {}

use durable::step;

#[step]
async unsafe fn charge(cents: u32) -> u32 {
    cents
}

fn main() {}

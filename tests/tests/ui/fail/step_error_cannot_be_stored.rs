use durable::step;

struct Declined;

#[step]
async fn charge(cents: u32) -> Result<u32, Declined> {
    if cents == 0 { Err(Declined) } else { Ok(cents) }
}

fn main() {}

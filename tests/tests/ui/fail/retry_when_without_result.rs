use durable::step;

fn transient(_: &String) -> bool {
    true
}

#[step(retry(when = transient))]
async fn charge(cents: u32) -> u32 {
    cents
}

fn main() {}

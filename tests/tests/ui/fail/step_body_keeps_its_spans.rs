use durable::step;

#[step]
async fn charge(cents: u32) -> u32 {
    let text: String = cents;
    text.len()
}

fn main() {}

use durable::step;

struct Card;

#[step(retry)]
async fn charge(cents: u32, card: Card) -> u32 {
    let _ = card;
    cents
}

fn main() {}

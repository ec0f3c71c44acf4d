use durable::step;

struct Receipt;

#[step]
async fn charge(cents: u32) -> Receipt {
    let _ = cents;
    Receipt
}

fn main() {}

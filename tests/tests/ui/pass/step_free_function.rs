use durable::step;

#[step]
async fn charge(account: u64, cents: u32) -> Result<u32, String> {
    if account == 0 { Err("no account".to_owned()) } else { Ok(cents) }
}

fn main() {
    let _future = charge(7, 500);
}

use durable::step;

fn transient(error: &std::fmt::Error) -> bool {
    let _ = error;
    true
}

#[step(retry(when = transient))]
async fn charge(cents: u32) -> Result<u32, String> {
    Ok(cents)
}

fn main() {}

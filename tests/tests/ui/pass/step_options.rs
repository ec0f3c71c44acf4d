use durable::step;

fn transient(error: &String) -> bool {
    error.contains("busy")
}

#[step(
    name = "charge the card",
    retry(max_attempts = 5, initial = "250ms", factor = 1.5, max = "5m", jitter = false, when = self::transient),
    timeout = "30s",
    codec = "json",
    crate = "::durable"
)]
async fn charge(cents: u32) -> Result<u32, String> {
    Ok(cents)
}

#[step(retry(when = String::is_empty))]
async fn qualified(cents: u32) -> Result<u32, String> {
    Ok(cents)
}

fn error(error: &String) -> bool {
    error.is_empty()
}

#[step(retry(when = error))]
async fn hygienic(cents: u32) -> Result<u32, String> {
    Ok(cents)
}

#[step(retry(),)]
async fn defaults() {}

#[step()]
async fn none() {}

fn main() {
    let _futures = (charge(3), qualified(3), hygienic(3), defaults(), none());
}

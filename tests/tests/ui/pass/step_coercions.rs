use durable::step;

#[step]
async fn slice(long: bool) -> Result<Box<[u8]>, String> {
    if long {
        return Ok(Box::new([1, 2, 3]));
    }
    Ok(Box::new([1]))
}

#[step(retry)]
async fn pairs() -> (Box<[u8]>, Box<str>) {
    (Box::new([1]), "text".into())
}

fn main() {
    let _futures = (slice(true), pairs());
}

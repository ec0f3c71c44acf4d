use serde::{Serialize, de::DeserializeOwned};
use durable::step;

#[step]
async fn keep<T>(value: T) -> Result<T, String>
where
    T: Serialize + DeserializeOwned + Send,
{
    Ok(value)
}

#[step]
async fn unserialized_argument<T: Send + Sync, E: From<durable::Failure> + Send>(value: &T) -> Result<bool, E> {
    let _ = value;
    Ok(true)
}

fn main() {
    let thread = std::thread::current();
    let _futures = (keep(3), unserialized_argument::<_, String>(&thread));
}

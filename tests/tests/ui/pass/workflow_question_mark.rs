use durable::workflow;

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Declined;

impl From<std::num::ParseIntError> for Declined {
    fn from(_: std::num::ParseIntError) -> Self {
        Self
    }
}

#[workflow]
async fn own(text: String) -> Result<u32, Declined> {
    if text.is_empty() {
        return Err(Declined);
    }
    Ok(text.parse::<u32>()?)
}

#[workflow]
async fn boxed(text: String) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if text.is_empty() {
        return Err(Box::new(std::fmt::Error));
    }
    Err("no")?;
    Ok(())
}

#[workflow]
async fn diverges() -> Result<u32, String> {
    todo!()
}

fn main() {
    let _starts = (own::start(String::new()), boxed::start(String::new()), diverges::start());
}

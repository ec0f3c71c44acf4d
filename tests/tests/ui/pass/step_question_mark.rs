use std::num::ParseIntError;

use durable::step;

#[derive(Debug, serde::Serialize, serde::Deserialize)]
enum BankError {
    Parse(String),
    Empty,
}

impl From<ParseIntError> for BankError {
    fn from(error: ParseIntError) -> Self {
        Self::Parse(error.to_string())
    }
}

#[step]
async fn own(text: &str) -> Result<u32, BankError> {
    if text.is_empty() {
        return Err(BankError::Empty);
    }
    let number: u32 = text.parse()?;
    std::future::ready(()).await;
    Ok(number + "1".parse::<u32>()?)
}

#[step]
async fn mixed(text: &str) -> anyhow::Result<u32> {
    let number: u32 = text.parse()?;
    let _ = String::from_utf8(vec![1])?;
    anyhow::ensure!(number > 0, "zero");
    Ok(number)
}

#[step(retry)]
async fn boxed(text: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if text.is_empty() {
        return Err(Box::new(std::fmt::Error));
    }
    let _: u32 = text.parse()?;
    Err("never good".into())
}

#[step]
async fn option(text: Option<&str>) -> Option<u32> {
    let text = text?;
    text.parse().ok()
}

#[step]
async fn only_errors() -> Result<(), String> {
    Err("no")?;
    Ok(())
}

fn main() {
    let _futures = (own("1"), mixed("1"), boxed("1"), option(None), only_errors());
}

use durable::workflow;

#[workflow]
async fn digest(doc: String, limit: Option<u32>) -> anyhow::Result<String> {
    std::future::ready(()).await;
    anyhow::ensure!(limit != Some(0), "no room");
    Ok(doc)
}

#[workflow]
async fn nothing() {}

async fn caller() {
    let _ = digest(String::new(), None).await;
    nothing().await;
}

fn main() {
    let _starts = (digest::start(String::new(), None), nothing::start());
    let _future = caller();
}

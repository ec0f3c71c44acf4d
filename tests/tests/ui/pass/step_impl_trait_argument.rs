use durable::step;

#[step]
async fn send(to: impl AsRef<str> + Send, body: &(impl ToString + Sync)) -> usize {
    std::future::ready(()).await;
    to.as_ref().len() + body.to_string().len()
}

#[step(retry)]
async fn retried(to: impl AsRef<str> + Clone + Send) -> usize {
    to.as_ref().len()
}

fn main() {
    let _futures = (send("me", &3), retried(String::new()));
}

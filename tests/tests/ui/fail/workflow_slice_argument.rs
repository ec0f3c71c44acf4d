use durable::workflow;

#[workflow]
async fn digest(docs: &[String]) -> usize {
    docs.len()
}

fn main() {}

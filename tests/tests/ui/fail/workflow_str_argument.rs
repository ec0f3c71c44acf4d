use durable::workflow;

#[workflow]
async fn digest(doc: &str) -> usize {
    doc.len()
}

fn main() {}

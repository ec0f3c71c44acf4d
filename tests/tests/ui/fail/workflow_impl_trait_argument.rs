use durable::workflow;

#[workflow]
async fn digest(doc: impl Into<String>) -> String {
    doc.into()
}

fn main() {}

use durable::workflow;

#[workflow]
async fn digest(doc: String) -> &'static str {
    drop(doc);
    "done"
}

fn main() {}

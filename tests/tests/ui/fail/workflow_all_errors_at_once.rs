use durable::workflow;

#[workflow(version = "2")]
fn digest<T>(doc: &str, docs: &[T]) -> &str {
    drop(docs);
    doc
}

fn main() {}

use durable::workflow;

#[workflow]
fn digest(doc: String) -> usize {
    doc.len()
}

fn main() {}

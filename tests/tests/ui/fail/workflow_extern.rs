use durable::workflow;

#[workflow]
async extern "C" fn digest(doc: String) -> usize {
    doc.len()
}

fn main() {}

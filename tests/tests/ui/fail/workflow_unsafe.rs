use durable::workflow;

#[workflow]
async unsafe fn digest(doc: String) -> usize {
    doc.len()
}

fn main() {}

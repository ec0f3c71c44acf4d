#[durable::workflow]
async fn flow(doc: String) -> usize {
    doc.len()
}

fn main() {
    let _start = flow::start(String::new());
}

use durable::workflow;

#[workflow]
async fn digest(doc: Option<&'static std::path::Path>, count: &mut u64) -> bool {
    *count += 1;
    doc.is_some()
}

fn main() {}

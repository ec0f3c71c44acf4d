use durable::workflow;

#[workflow]
async fn digest(doc: String) -> usize {
    doc.len()
}

#[workflow(name = "digest of digests", version = 2, type = Digest)]
async fn digests() {}

#[workflow(type = Move)]
async fn r#type(r#type: u32) -> u32 {
    r#type
}

fn main() {
    use durable::Workflow;

    assert_eq!((digest::NAME, digest::VERSION), ("digest", 1));
    assert_eq!((Digest::NAME, Digest::VERSION), ("digest of digests", 2));
    assert_eq!(<Move as Workflow>::NAME, "type");
    let _starts = (digest::start(String::new()), Digest::start(), Move::start(3));
    let _call = || r#type(3);
}

use durable::workflow;

struct Digest;

impl Digest {
    #[workflow]
    async fn run(&self, doc: String) -> usize {
        doc.len()
    }
}

fn main() {}

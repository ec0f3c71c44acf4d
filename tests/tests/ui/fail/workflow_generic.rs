use durable::workflow;

#[workflow]
async fn digest<T: Send>(doc: T) {
    drop(doc);
}

fn main() {}

use durable::workflow;

#[workflow]
async fn digest() -> impl Send {
    3
}

fn main() {}

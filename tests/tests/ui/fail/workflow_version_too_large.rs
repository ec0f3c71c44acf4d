use durable::workflow;

#[workflow(version = 5000000000)]
async fn digest() {}

fn main() {}

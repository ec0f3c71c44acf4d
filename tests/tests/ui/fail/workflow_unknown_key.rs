use durable::workflow;

#[workflow(timeout)]
async fn digest() {}

fn main() {}

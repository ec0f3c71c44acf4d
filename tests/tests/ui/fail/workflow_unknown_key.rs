use durable::workflow;

#[workflow(retry)]
async fn digest() {}

fn main() {}

use durable::workflow;

#[workflow(type = types::Digest)]
async fn digest() {}

fn main() {}

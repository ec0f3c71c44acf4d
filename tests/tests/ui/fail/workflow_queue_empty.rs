use durable::workflow;

#[workflow(queue = "")]
async fn digest() {}

fn main() {}

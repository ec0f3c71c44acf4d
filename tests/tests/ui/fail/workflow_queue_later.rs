use durable::workflow;

#[workflow(queue = "mail")]
async fn digest() {}

fn main() {}

use durable::workflow;

#[workflow(version = "2")]
async fn digest() {}

fn main() {}

use durable::workflow;

#[workflow(schedule = "0 9 * * MON-FRI", timezone = "Asia/Seoul")]
async fn digest() {}

fn main() {}

use durable::workflow;

struct Declined;

#[workflow]
async fn digest() -> Result<(), Declined> {
    Err(Declined)
}

fn main() {}

use durable::workflow;

#[workflow]
async fn digest() -> ! {
    loop {}
}

fn main() {}

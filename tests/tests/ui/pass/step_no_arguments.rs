use durable::step;

#[step]
async fn nothing() {}

#[step]
async fn number() -> u32 {
    3
}

fn main() {
    let _futures = (nothing(), number());
}

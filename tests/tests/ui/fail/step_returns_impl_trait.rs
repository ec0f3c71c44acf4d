use durable::step;

#[step]
async fn words() -> impl Iterator<Item = u32> {
    0..3
}

fn main() {}

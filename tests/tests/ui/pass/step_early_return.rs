use durable::step;

#[step]
async fn sign(number: i64) -> i64 {
    if number > 0 {
        return 1;
    }
    for candidate in 0..3 {
        if candidate == number {
            return candidate;
        }
    }
    match number {
        0 => 0,
        _ => -1,
    }
}

#[step]
async fn diverges() -> Result<u32, String> {
    todo!()
}

#[step]
async fn loops() -> u32 {
    loop {
        std::future::ready(()).await;
    }
}

fn main() {
    let _futures = (sign(3), diverges(), loops());
}

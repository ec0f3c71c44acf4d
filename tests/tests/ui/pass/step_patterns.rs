use durable::step;

struct Point {
    x: u32,
    y: u32,
}

#[step]
async fn patterns((a, _): (u32, String), Point { x, y }: Point, [first, ..]: [u32; 3], _: u8, whole @ (_, _): (u32, u32)) -> u32 {
    std::future::ready(()).await;
    a + x + y + first + whole.0
}

#[step]
async fn taken_name(_: u32, arg0: u32) -> u32 {
    arg0
}

fn main() {
    let _futures = (patterns((1, String::new()), Point { x: 1, y: 2 }, [1, 2, 3], 4, (5, 6)), taken_name(1, 2));
}

use durable::step;

#[step]
async fn sum<const N: usize>(numbers: [u32; N]) -> u32 {
    numbers.iter().sum()
}

fn main() {
    let _future = sum([1, 2, 3]);
}

use durable::step;

#[step]
struct Charge;

fn main() {}

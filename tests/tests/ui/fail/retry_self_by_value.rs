use durable::step;

struct Cart(Vec<String>);

impl Cart {
    #[step(retry)]
    async fn empty(self) -> Vec<String> {
        self.0
    }
}

fn main() {}

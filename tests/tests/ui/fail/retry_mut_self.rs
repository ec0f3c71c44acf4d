use durable::step;

struct Cart(Vec<String>);

impl Cart {
    #[step(retry)]
    async fn fill(&mut self) {
        self.0.push(String::new());
    }
}

fn main() {}

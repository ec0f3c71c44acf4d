use std::sync::Arc;

use durable::step;

#[derive(Clone)]
struct Cart(Vec<String>);

impl Cart {
    #[step]
    async fn read(&self, prefix: &str) -> usize {
        std::future::ready(()).await;
        self.0.iter().filter(|word| word.starts_with(prefix)).count()
    }

    #[step]
    async fn fill(&mut self, word: &str) {
        std::future::ready(()).await;
        self.0.push(word.to_owned());
    }

    #[step]
    async fn empty(mut self) -> Vec<String> {
        self.0.push(String::new());
        self.0
    }

    #[step]
    async fn unused(self) -> u32 {
        3
    }

    #[step]
    async fn shared(self: Arc<Self>) -> usize {
        self.0.len()
    }

    #[step(retry)]
    async fn retried(&self, words: &[String]) -> usize {
        std::future::ready(()).await;
        self.0.len() + words.len()
    }

    #[step(retry)]
    async fn retried_typed(self: &Self, word: String) -> usize {
        self.0.len() + word.len()
    }

    #[step]
    async fn associated(word: String) -> String {
        word
    }
}

async fn caller(mut cart: Cart) {
    cart.read("a").await;
    cart.fill("a").await;
    cart.retried(&[]).await;
    cart.retried_typed(String::new()).await;
    cart.clone().empty().await;
    cart.clone().unused().await;
    Arc::new(cart).shared().await;
    Cart::associated(String::new()).await;
}

fn main() {
    let _future = caller(Cart(Vec::new()));
}

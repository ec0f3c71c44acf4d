use durable::step;

#[step(retry)]
async fn fill(words: &mut Vec<String>) {
    words.push(String::new());
}

fn main() {}

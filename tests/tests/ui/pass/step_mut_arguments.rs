use durable::step;

#[step]
async fn grow(mut words: Vec<String>, (mut count, _): (u32, u32)) -> Vec<String> {
    count += 1;
    words.push(count.to_string());
    words
}

#[step(retry)]
async fn retried(mut words: Vec<String>) -> Vec<String> {
    words.push(String::new());
    words
}

fn main() {
    let _futures = (grow(Vec::new(), (1, 2)), retried(Vec::new()));
}

use durable::step;

#[step]
async fn first(words: &[String]) -> Option<&str> {
    words.first().map(String::as_str)
}

fn main() {}

use std::borrow::Cow;

use durable::step;

#[step]
async fn first(words: &[String]) -> Cow<'_, str> {
    Cow::Borrowed(&words[0])
}

fn main() {}

#![allow(non_camel_case_types)]

use durable::step;

// Nothing that the user's scope means by these words changes the expansion.
#[allow(dead_code)]
mod core {}
#[allow(dead_code)]
mod std {}
struct Option;
struct Result;
struct Some;
struct None;
struct Send;
struct Future;
struct Clone;

type text = ::std::string::String;

#[step(retry(max_attempts = 2), timeout = "1s")]
async fn charge(once: text, value: text, never: text, pick: text) -> text {
    let _ = (Option, Result, Some, None, Send, Future, Clone);
    once + &value + &never + &pick
}

#[durable::workflow]
async fn flow(input: text, never: text) -> text {
    input + &never
}

fn main() {
    let _futures = (
        charge(text::new(), text::new(), text::new(), text::new()),
        flow::start(text::new(), text::new()),
    );
}

use durable::workflow;

use durable::Workflow;

#[workflow]
async fn digest(doc: String, r#type: u8, (a, mut b): (u32, u32), _: bool, mut words: Vec<String>) -> u32 {
    b += 1;
    words.push(doc);
    a + b + u32::from(r#type)
}

#[workflow]
async fn nothing() {}

fn stored<W: Workflow>(text: &str) -> bool {
    let input: W::Input = serde_json::from_str(text).unwrap();
    serde_json::to_string(&input).unwrap() == text
}

fn main() {
    assert!(stored::<digest>(r#"{"doc":"d","type":3,"arg2":[1,2],"arg3":true,"words":[]}"#));
    assert!(stored::<nothing>("{}"));
}

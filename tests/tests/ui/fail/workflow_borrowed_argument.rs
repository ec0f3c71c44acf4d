use std::borrow::Cow;

use durable::workflow;

#[workflow]
async fn digest(doc: Cow<'_, str>) -> usize {
    doc.len()
}

fn main() {}

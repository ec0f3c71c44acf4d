mod vendored {
    pub use durable as library;
}

#[durable::step(crate = "crate::vendored::library", retry)]
async fn charge(cents: u32) -> Result<u32, String> {
    Ok(cents)
}

#[durable::workflow(crate = "crate::vendored::library")]
async fn digest(doc: String) -> Result<usize, String> {
    Ok(doc.len())
}

fn main() {
    let _future = charge(3);
    let _start = digest::start(String::new());
}

use durable::step;

struct Context<'a>(&'a str);

#[step]
async fn join(first: &str, rest: &[String], context: Context<'_>, log: &mut Vec<String>) -> String {
    std::future::ready(()).await;
    log.push(context.0.to_owned());
    format!("{first}{}", rest.concat())
}

#[step]
async fn named<'a, 'b: 'a>(first: &'a str, second: &'b str) -> usize {
    std::future::ready(()).await;
    first.len() + second.len()
}

async fn caller() {
    let text = String::from("text");
    let mut log = Vec::new();
    join(&text, &[], Context(&text), &mut log).await;
    named(&text, "static").await;
}

fn main() {
    let _future = caller();
}

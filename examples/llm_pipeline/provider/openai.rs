//! OpenAI's chat API, which many local servers speak too: the request and the part of the answer that is used.
//! Layer: below `provider`.

use anyhow::{Context, bail};
use durable::Failure;
use reqwest::RequestBuilder;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Prompt, Provider};

pub(super) const BASE: &str = "https://api.openai.com/v1";
pub(super) const MODEL: &str = "gpt-4.1-mini";

pub(super) fn request(provider: &Provider, prompt: &Prompt) -> RequestBuilder {
    let request = provider.client.post(format!("{}/chat/completions", provider.base));
    let request = match &provider.key {
        Some(key) => request.bearer_auth(key),
        None => request,
    };
    // No token limit: its name differs between models, and the instruction asks for a few sentences.
    request.json(&json!({
        "model": provider.model,
        "messages": [
            { "role": "system", "content": prompt.instruction },
            { "role": "user", "content": prompt.text },
        ],
    }))
}

#[derive(Deserialize)]
struct Completion {
    model: String,
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

pub(super) fn answer(body: &str) -> anyhow::Result<Answer> {
    let completion: Completion = serde_json::from_str(body).context("not a completion of OpenAI's API")?;
    let Some(choice) = completion.choices.into_iter().next() else { bail!("the completion has no choice") };
    if choice.finish_reason.as_deref() == Some("length") {
        return Err(Failure::permanent("the answer was cut at the model's limit").into());
    }
    let text = choice.message.content.unwrap_or_default();
    if text.trim().is_empty() {
        bail!("the completion has no text");
    }
    Ok(Answer { text: text.trim().to_owned(), model: completion.model })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_choice_is_the_answer() {
        let body = r#"{"model":"m-1","choices":[{"message":{"content":"One.\n"},"finish_reason":"stop"}]}"#;
        assert_eq!(answer(body).unwrap(), Answer { text: "One.".into(), model: "m-1".into() });
    }

    #[test]
    fn an_answer_without_text_is_an_error() {
        for body in [
            r#"{"model":"m","choices":[]}"#,
            r#"{"model":"m","choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#,
            r#"{"model":"m","choices":[{"message":{"content":"On"},"finish_reason":"length"}]}"#,
            "busy",
        ] {
            answer(body).unwrap_err();
        }
    }
}

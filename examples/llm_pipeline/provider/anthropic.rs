//! Anthropic's Messages API: the request and the part of the answer that is used. Layer: below `provider`.

use anyhow::{Context, bail};
use durable::Failure;
use reqwest::RequestBuilder;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Prompt, Provider};

pub(super) const BASE: &str = "https://api.anthropic.com";
pub(super) const MODEL: &str = "claude-sonnet-4-5";

/// The API wants a limit. A summary or its translation needs a few hundred.
const MAX_TOKENS: u32 = 4096;

pub(super) fn request(provider: &Provider, prompt: &Prompt) -> RequestBuilder {
    provider
        .client
        .post(format!("{}/v1/messages", provider.base))
        .header("x-api-key", provider.key.as_deref().unwrap_or_default())
        .header("anthropic-version", "2023-06-01")
        .json(&json!({
            "model": provider.model,
            "max_tokens": MAX_TOKENS,
            "system": prompt.instruction,
            "messages": [{ "role": "user", "content": prompt.text }],
        }))
}

#[derive(Deserialize)]
struct Message {
    model: String,
    content: Vec<Block>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    text: String,
}

pub(super) fn answer(body: &str) -> anyhow::Result<Answer> {
    let message: Message = serde_json::from_str(body).context("not a message of Anthropic's API")?;
    if message.stop_reason.as_deref() == Some("max_tokens") {
        return Err(Failure::permanent(format!("the answer was cut at {MAX_TOKENS} tokens")).into());
    }
    let text: String = message.content.into_iter().map(|block| block.text).collect();
    if text.trim().is_empty() {
        bail!("the message has no text");
    }
    Ok(Answer { text: text.trim().to_owned(), model: message.model })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_blocks_are_the_answer() {
        let body = r#"{"model":"m-1","stop_reason":"end_turn","content":[{"type":"text","text":" One. "},
            {"type":"tool_use","id":"x","name":"y","input":{}},{"type":"text","text":"Two.\n"}]}"#;
        assert_eq!(answer(body).unwrap(), Answer { text: "One. Two.".into(), model: "m-1".into() });
    }

    #[test]
    fn a_cut_answer_is_permanent_and_an_empty_one_is_not() {
        let permanent = |body: &str| {
            let error = answer(body).unwrap_err();
            error.downcast_ref::<Failure>().is_some_and(Failure::is_permanent)
        };
        assert!(permanent(r#"{"model":"m","stop_reason":"max_tokens","content":[{"text":"On"}]}"#));
        assert!(!permanent(r#"{"model":"m","stop_reason":"end_turn","content":[]}"#));
        assert!(!permanent("<html>"));
    }
}

//! The model behind the steps: Anthropic, an OpenAI-compatible server, or the stand-in.
//!
//! Guarantees that a refusal that retrying can't cure is a permanent failure with the provider's own words, and that
//! every other one has waited for what `Retry-After` asks before it is returned. Does not retry: the steps do.
//! Layer: below `pipeline`.

mod anthropic;
mod ledger;
mod openai;
mod prompt;
mod retry_after;
mod stand_in;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use durable::Failure;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, StatusCode};
use serde::{Deserialize, Serialize};

pub(crate) use prompt::Prompt;

/// Longest wait for a connection, and for a whole answer: a long translation takes a minute or two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// What a model said, and which one: the recorded outcome of each step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) model: String,
}

/// Where the calls go. Put into the runtime's state at start and reached from each step.
#[derive(Debug)]
pub(crate) struct Provider {
    client: Client,
    api: Api,
    /// Without a slash at the end.
    base: String,
    key: Option<String>,
    model: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    Anthropic,
    OpenAi,
    /// Speaks OpenAI's API, so that the same code is on the way.
    StandIn,
}

impl Provider {
    /// The provider that the environment asks for; with none, a stand-in is started in this process, which counts
    /// its calls in `calls`.
    ///
    /// # Errors
    /// If the client, the stand-in's socket or the file of calls can't be had, or `calls` is given with a real model.
    pub(crate) async fn from_env(latency: Duration, calls: Option<&Path>) -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let Some(settings) = Settings::choose(variable) else {
            let address = stand_in::serve(latency, calls).await?;
            let settings = Settings {
                api: Api::StandIn,
                base: format!("http://{address}/v1"),
                key: None,
                model: stand_in::MODEL.to_owned(),
            };
            return Self::new(settings);
        };
        if calls.is_some() {
            bail!(
                "`--calls` counts what the stand-in is asked, but the environment names a real model: unset its variables, or leave the flag out"
            );
        }
        Self::new(settings)
    }

    fn new(settings: Settings) -> anyhow::Result<Self> {
        // Fails only where one is installed already, which does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            // The steps retry, and record that they do.
            .retry(reqwest::retry::never());
        // The stand-in is in this process: no proxy can know it.
        let client = if settings.api == Api::StandIn { client.no_proxy() } else { client };
        let client = client.build().context("cannot set up the HTTP client")?;
        let Settings { api, base, key, model } = settings;
        Ok(Self { client, api, base: base.trim_end_matches('/').to_owned(), key, model })
    }

    /// One line for the start of the program.
    pub(crate) fn describe(&self) -> String {
        match self.api {
            Api::Anthropic => format!("model {} at {}", self.model, self.base),
            Api::OpenAi => format!("model {} at {} (OpenAI's API)", self.model, self.base),
            Api::StandIn => format!(
                "STAND-IN: no model is called, since neither ANTHROPIC_API_KEY, OPENAI_API_KEY\n\
                 nor OPENAI_BASE_URL is set. A server in this process ({}) answers:\n\
                 its summaries are first sentences, its translations placeholders.",
                self.base
            ),
        }
    }

    /// Asks once.
    ///
    /// # Errors
    /// A permanent [`Failure`] if asking again can't help; any other error may be retried at once, whatever
    /// `Retry-After` asked has passed.
    pub(crate) async fn ask(&self, prompt: &Prompt, idempotency_key: &str) -> anyhow::Result<Answer> {
        let request = match self.api {
            Api::Anthropic => anthropic::request(self, prompt),
            Api::OpenAi | Api::StandIn => openai::request(self, prompt),
        };
        // A workflow's id may hold letters that `&str` headers refuse.
        let key = HeaderValue::from_bytes(idempotency_key.as_bytes()).context("idempotency key")?;
        let response = request.header("Idempotency-Key", key).send().await;
        let response = response.map_err(|error| self.lost(error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.text().await.map_err(|error| self.lost(error))?;
        if !status.is_success() {
            return Err(self.refused(status, &headers, &body).await);
        }
        let answer = match self.api {
            Api::Anthropic => anthropic::answer(&body),
            Api::OpenAi | Api::StandIn => openai::answer(&body),
        };
        answer.with_context(|| format!("answer of {} is not usable", self.base))
    }

    fn lost(&self, error: reqwest::Error) -> anyhow::Error {
        anyhow::Error::new(error.without_url()).context(format!("no answer from {}", self.base))
    }

    async fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &str) -> anyhow::Error {
        let words = format!("{} answered {status}: {}", self.base, provider_message(body));
        if !may_pass(status) {
            return Failure::permanent(words).into();
        }
        if let Some(wait) = retry_after::wait(headers) {
            tokio::time::sleep(wait).await;
        }
        anyhow!(words)
    }
}

/// True for what another attempt can cure: overload, a conflict with a call in flight, a server's own error.
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425 | 429) || status.is_server_error()
}

/// The `message` in the body, else the beginning of the body.
fn provider_message(body: &str) -> String {
    let json: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(|json| {
        let error = json.get("error")?;
        error.get("message").unwrap_or(error).as_str()
    });
    match message.unwrap_or(body).trim() {
        "" => "no reason given".to_owned(),
        words => words.chars().take(400).collect(),
    }
}

/// What the environment asks for.
#[derive(Debug, PartialEq)]
struct Settings {
    api: Api,
    base: String,
    key: Option<String>,
    model: String,
}

impl Settings {
    /// `None` for the stand-in. A variable that is set to nothing counts as not set.
    fn choose(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let variable =
            |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let or = |name: &str, default: &str| variable(name).unwrap_or_else(|| default.to_owned());
        if let Some(key) = variable("ANTHROPIC_API_KEY") {
            return Some(Self {
                api: Api::Anthropic,
                base: or("ANTHROPIC_BASE_URL", anthropic::BASE),
                key: Some(key),
                model: or("ANTHROPIC_MODEL", anthropic::MODEL),
            });
        }
        let key = variable("OPENAI_API_KEY");
        if key.is_none() && variable("OPENAI_BASE_URL").is_none() {
            return None;
        }
        let (base, model) = (or("OPENAI_BASE_URL", openai::BASE), or("OPENAI_MODEL", openai::MODEL));
        Some(Self { api: Api::OpenAi, base, key, model })
    }
}

#[cfg(test)]
mod tests;

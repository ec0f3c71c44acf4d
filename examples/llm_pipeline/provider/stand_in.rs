//! A stand-in for a model: a small HTTP server in this process, so that the program runs with no key and no network.
//!
//! It speaks as much of OpenAI's chat API as the program uses and says in each answer that it is a stand-in. Its
//! summaries are first sentences and its translations placeholders; it judges nothing. Layer: below `provider`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::ledger::Ledger;

pub(super) const MODEL: &str = "stand-in";

struct StandIn {
    latency: Duration,
    ledger: Option<Ledger>,
}

/// Starts it on a free port of the loopback interface, for as long as the process lives.
///
/// # Errors
/// If there is no port to be had, or `calls` can't hold the counts.
pub(super) async fn serve(latency: Duration, calls: Option<&Path>) -> anyhow::Result<SocketAddr> {
    let ledger = calls.map(Ledger::open).transpose()?;
    let stand_in = Arc::new(StandIn { latency, ledger });
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot start the stand-in on 127.0.0.1")?;
    let address = listener.local_addr().context("cannot start the stand-in on 127.0.0.1")?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(connection(stream, Arc::clone(&stand_in)))),
                // Out of file descriptors, mostly: some come back as connections close.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    Ok(address)
}

async fn connection(stream: TcpStream, stand_in: Arc<StandIn>) {
    let service = service_fn(|request| {
        let stand_in = Arc::clone(&stand_in);
        async move {
            let (status, body) = stand_in.respond(request).await.unwrap_or_else(|error| {
                (StatusCode::INTERNAL_SERVER_ERROR, json!({ "error": { "message": error.to_string() } }))
            });
            let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }
    });
    // The caller sees a broken connection as well as we do, and retries.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    content: String,
}

impl StandIn {
    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> anyhow::Result<(StatusCode, serde_json::Value)> {
        let key = request.headers().get("idempotency-key");
        let key = key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned()).unwrap_or_default();
        let body = request.into_body().collect().await?.to_bytes();
        let chat: Chat = match serde_json::from_slice(&body) {
            Ok(chat) => chat,
            Err(error) => return Ok((StatusCode::BAD_REQUEST, json!({ "error": { "message": error.to_string() } }))),
        };
        let (instruction, text) = match chat.messages.as_slice() {
            [system, user] => (system.content.as_str(), user.content.as_str()),
            _ => ("", ""),
        };
        let answer = reply(instruction, text);
        let latency = self.latency;
        // Counted first: a call that was begun has to be seen in the file even if we are killed while we "think".
        tokio::task::spawn_blocking(move || self.count(&key)).await??;
        tokio::time::sleep(latency).await;
        let choice = json!({ "message": { "role": "assistant", "content": answer }, "finish_reason": "stop" });
        Ok((StatusCode::OK, json!({ "model": MODEL, "choices": [choice] })))
    }

    fn count(&self, key: &str) -> io::Result<()> {
        self.ledger.as_ref().map_or(Ok(()), |ledger| ledger.count(key))
    }
}

/// What the stand-in says, by the first word of the instruction.
fn reply(instruction: &str, text: &str) -> String {
    match instruction.split_whitespace().next() {
        Some("Summarize") => format!("[stand-in] {}", first_sentences(&prose(text), 1)),
        Some("Combine") => format!("[stand-in] {}", first_sentences(&prose(text), 2)),
        Some("Translate") if instruction.contains("Korean") => format!("[stand-in ko] {}", prose(text)),
        Some("Translate") if instruction.contains("Japanese") => format!("[stand-in ja] {}", prose(text)),
        Some("Verify") => json!({
            "verdict": "unclear",
            "note": "[stand-in] nothing was judged: the translations are placeholders",
        })
        .to_string(),
        _ => "[stand-in] this is no model: it only knows the questions of its own program".to_owned(),
    }
}

/// The text on one line, without headings and without our own marks.
fn prose(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words = lines.flat_map(|line| line.trim_start_matches("[stand-in] ").split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

/// Up to the end of the n-th sentence, or all of it.
fn first_sentences(text: &str, n: usize) -> &str {
    let ends = text.char_indices().filter(|&(index, c)| {
        let after = text.get(index + c.len_utf8()..).unwrap_or_default();
        matches!(c, '。' | '！' | '？') || (matches!(c, '.' | '!' | '?') && after.starts_with(' '))
    });
    match ends.map(|(index, c)| index + c.len_utf8()).nth(n.saturating_sub(1)) {
        Some(end) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_first_sentence() {
        let text = "# A heading. With a stop.\n\nIt costs 1.5 million, he\nsaid. More follows. And more.";
        assert_eq!(reply("Summarize the section.", text), "[stand-in] It costs 1.5 million, he said.");
        assert_eq!(first_sentences("하나。둘。셋。", 2), "하나。둘。");
        assert_eq!(first_sentences("no end", 1), "no end");
    }

    #[test]
    fn each_answer_says_that_it_is_a_stand_ins_once() {
        let combined = reply("Combine the summaries.", "# A\n\n[stand-in] One.\n\n# B\n\n[stand-in] Two.");
        assert_eq!(combined, "[stand-in] One. Two.");
        assert_eq!(reply("Translate the text into Korean.", &combined), "[stand-in ko] One. Two.");
        assert_eq!(reply("Translate the text into Japanese.", &combined), "[stand-in ja] One. Two.");
        assert!(reply("Verify that", "").contains("[stand-in]") && reply("Sing", "").contains("[stand-in]"));
    }
}

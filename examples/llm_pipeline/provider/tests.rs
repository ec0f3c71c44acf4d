//! A provider against servers of this process: what is sent, what is retried, what is final.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// A server that gives one canned answer, and the request it got.
async fn canned(status: &str, headers: &str, body: &str) -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let response =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}connection: close\r\n\r\n{body}", body.len());
    let request = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&request);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 64 * 1024];
        let mut length = 0;
        // The body is JSON and ends the request.
        while !bytes[..length].ends_with(b"}") {
            length += stream.read(&mut bytes[length..]).await.unwrap();
        }
        *seen.lock().unwrap() = String::from_utf8_lossy(&bytes[..length]).into_owned();
        stream.write_all(response.as_bytes()).await.unwrap();
    });
    (base, request)
}

fn provider(api: Api, base: &str, key: Option<&str>) -> Provider {
    let key = key.map(str::to_owned);
    let settings = Settings { api, base: base.to_owned(), key, model: "m".to_owned() };
    // No proxy of the machine that runs the test.
    let client = Client::builder().no_proxy();
    let mut provider = Provider::new(settings).unwrap();
    provider.client = client.build().unwrap();
    provider
}

async fn ask(provider: &Provider) -> anyhow::Result<Answer> {
    provider.ask(&Prompt::translate("Hello.", "Korean"), "run-é:0").await
}

fn is_permanent(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(Failure::is_permanent)
}

#[tokio::test]
async fn anthropic_gets_its_headers_and_the_key_of_the_step() {
    let body = r#"{"model":"m-1","stop_reason":"end_turn","content":[{"type":"text","text":"안녕."}]}"#;
    let (base, request) = canned("200 OK", "", body).await;
    let answer = ask(&provider(Api::Anthropic, &format!("{base}/"), Some("secret"))).await.unwrap();
    assert_eq!(answer, Answer { text: "안녕.".into(), model: "m-1".into() });
    let request = request.lock().unwrap().to_lowercase();
    assert!(request.starts_with("post /v1/messages "), "{request}");
    for header in ["x-api-key: secret", "anthropic-version: 2023-06-01", "idempotency-key: run-é:0"] {
        assert!(request.contains(header), "{request}");
    }
}

#[tokio::test]
async fn openai_gets_a_bearer_only_if_there_is_a_key() {
    let body = r#"{"model":"m-1","choices":[{"message":{"content":"안녕."},"finish_reason":"stop"}]}"#;
    for (key, expected) in [(Some("secret"), true), (None, false)] {
        let (base, request) = canned("200 OK", "", body).await;
        ask(&provider(Api::OpenAi, &format!("{base}/v1"), key)).await.unwrap();
        let request = request.lock().unwrap().to_lowercase();
        assert!(request.starts_with("post /v1/chat/completions "), "{request}");
        assert_eq!(request.contains("authorization: bearer secret"), expected);
    }
}

#[tokio::test]
async fn a_refusal_is_final_and_says_what_the_provider_says() {
    for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found", "422 Unprocessable"] {
        let (base, _) = canned(status, "retry-after: 50\r\n", r#"{"error":{"message":"invalid x-api-key"}}"#).await;
        let error = ask(&provider(Api::Anthropic, &base, Some("secret"))).await.unwrap_err();
        assert!(is_permanent(&error) && error.to_string().ends_with(": invalid x-api-key"), "{error:#}");
        assert!(error.to_string().contains(&status[..3]), "{error:#}");
    }
}

#[tokio::test]
async fn an_overload_may_be_retried_after_its_wait() {
    for status in ["429 Too Many Requests", "500 Internal Server Error", "503 Service Unavailable", "529 Overloaded"] {
        let (base, _) = canned(status, "retry-after: 1\r\n", "busy").await;
        let begin = std::time::Instant::now();
        let error = ask(&provider(Api::OpenAi, &base, None)).await.unwrap_err();
        assert!(!is_permanent(&error) && error.to_string().ends_with(": busy"), "{error:#}");
        assert!(begin.elapsed() >= Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_lost_connection_may_be_retried() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&provider(Api::OpenAi, &base, None)).await.unwrap_err();
    assert!(!is_permanent(&error) && error.to_string().contains(&base), "{error:#}");
}

#[tokio::test]
async fn the_stand_in_counts_each_call_by_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls.json");
    for _ in 0..2 {
        let address = stand_in::serve(Duration::ZERO, Some(&calls)).await.unwrap();
        let provider = provider(Api::StandIn, &format!("http://{address}/v1"), None);
        let answer = ask(&provider).await.unwrap();
        assert_eq!(answer, Answer { text: "[stand-in ko] Hello.".into(), model: "stand-in".into() });
    }
    let counts: BTreeMap<String, u64> = serde_json::from_slice(&std::fs::read(&calls).unwrap()).unwrap();
    assert_eq!(counts, BTreeMap::from([("run-é:0".to_owned(), 2)]));
}

#[test]
fn the_first_variable_that_is_set_decides() {
    let choose = |set: &[(&str, &str)]| {
        let set: BTreeMap<String, String> = set.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        Settings::choose(|name| set.get(name).cloned())
    };
    let both = choose(&[("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o"), ("ANTHROPIC_MODEL", "big")]).unwrap();
    assert_eq!((both.api, both.base.as_str(), both.model.as_str()), (Api::Anthropic, anthropic::BASE, "big"));
    let local = choose(&[("OPENAI_BASE_URL", "http://localhost:8080/v1"), ("OPENAI_API_KEY", " ")]).unwrap();
    assert_eq!((local.api, local.key, local.base.as_str()), (Api::OpenAi, None, "http://localhost:8080/v1"));
    assert_eq!(choose(&[("OPENAI_API_KEY", "o")]).unwrap().base, openai::BASE);
    assert_eq!(choose(&[("ANTHROPIC_API_KEY", ""), ("ANTHROPIC_MODEL", "big")]), None);
}

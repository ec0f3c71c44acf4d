//! The workflow: sections summarized in parallel, combined, translated twice in parallel, verified.
//!
//! Each call to the model is a step, so each answer is recorded before the next one is asked for. The workflow
//! itself is ordinary code between them; it is run again from the top after a crash, and the steps that were
//! recorded then answer at once.

use durable::{step, workflow};
use serde::{Deserialize, Serialize};

use crate::document::{self, Section};
use crate::provider::{Answer, Prompt, Provider};

/// Sections summarized at a time, for one document.
const AT_A_TIME: usize = 4;

/// What the workflow returns, and what is printed and written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) title: String,
    /// The models that answered, each once.
    pub(crate) models: Vec<String>,
    pub(crate) sections: Vec<Summary>,
    pub(crate) summary: String,
    pub(crate) korean: String,
    pub(crate) japanese: String,
    pub(crate) verdict: Verdict,
}

/// The summary of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) title: String,
    pub(crate) text: String,
}

/// What the model says of the translations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// `pass`, `fail`, or `unclear`: the model's word, or an answer that was none of these.
    pub(crate) verdict: String,
    #[serde(default)]
    pub(crate) note: String,
}

#[workflow]
pub(crate) async fn llm_pipeline(doc: String) -> anyhow::Result<Report> {
    let title = document::title(&doc);
    let sections = document::split(&doc);

    let answers = durable::map(sections, AT_A_TIME, |section| async move {
        let answer = summarize(&section).await?;
        anyhow::Ok((section.title, answer))
    })
    .await;
    let answers = answers.into_iter().collect::<anyhow::Result<Vec<_>>>()?;

    let mut models: Vec<String> = answers.iter().map(|(_, answer)| answer.model.clone()).collect();
    let sections = answers.into_iter().map(|(title, answer)| Summary { title, text: answer.text }).collect::<Vec<_>>();

    let summary = combine(&sections).await?;
    let (korean, japanese) =
        durable::try_join!(translate(&summary.text, "Korean"), translate(&summary.text, "Japanese"))?;
    let verdict = verify(&summary.text, &korean.text, &japanese.text).await?;

    models.extend([summary.model, korean.model, japanese.model, verdict.model]);
    models.sort();
    models.dedup();
    Ok(Report {
        title,
        models,
        sections,
        summary: summary.text,
        korean: korean.text,
        japanese: japanese.text,
        verdict: Verdict::parse(&verdict.text),
    })
}

// A step is tried again unless its error is a `durable::Failure::permanent`: the provider's refusals are, and an
// overload, a server's error or a lost connection are not.

#[step(retry(max_attempts = 5, initial = "1s", factor = 2, max = "30s", jitter))]
async fn summarize(section: &Section) -> anyhow::Result<Answer> {
    ask(Prompt::summarize(section)).await
}

#[step(retry(max_attempts = 5, initial = "1s", factor = 2, max = "30s", jitter))]
async fn combine(sections: &[Summary]) -> anyhow::Result<Answer> {
    ask(Prompt::combine(sections)).await
}

#[step(retry(max_attempts = 5, initial = "1s", factor = 2, max = "30s", jitter))]
async fn translate(text: &str, language: &str) -> anyhow::Result<Answer> {
    ask(Prompt::translate(text, language)).await
}

#[step(retry(max_attempts = 5, initial = "1s", factor = 2, max = "30s", jitter))]
async fn verify(summary: &str, korean: &str, japanese: &str) -> anyhow::Result<Answer> {
    ask(Prompt::verify(summary, korean, japanese)).await
}

/// One call. The key is the step's: the same for each attempt and after a crash, so a provider that knows the
/// header answers a repeated call from its own record.
async fn ask(prompt: Prompt) -> anyhow::Result<Answer> {
    durable::state::<Provider>().ask(&prompt, &durable::idempotency_key()).await
}

impl Verdict {
    /// Reads the JSON object in the answer; models like to put words around it.
    fn parse(answer: &str) -> Self {
        let object = answer.find('{').zip(answer.rfind('}')).and_then(|(start, end)| answer.get(start..=end));
        let read: Option<Self> = object.and_then(|object| serde_json::from_str(object).ok());
        match read {
            Some(read) if matches!(read.verdict.as_str(), "pass" | "fail" | "unclear") => read,
            _ => Self { verdict: "unclear".to_owned(), note: answer.trim().to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_found_among_words() {
        let verdict = Verdict::parse("Sure:\n```json\n{\"verdict\": \"fail\", \"note\": \"a year differs\"}\n```");
        assert_eq!((verdict.verdict.as_str(), verdict.note.as_str()), ("fail", "a year differs"));
        assert_eq!(Verdict::parse("{\"verdict\": \"pass\"}").verdict, "pass");
    }

    #[test]
    fn an_answer_that_is_no_verdict_is_unclear_and_kept() {
        for answer in ["looks good to me", "} {", "{\"verdict\": \"maybe\"}"] {
            let verdict = Verdict::parse(answer);
            assert_eq!((verdict.verdict.as_str(), verdict.note.as_str()), ("unclear", answer));
        }
    }
}

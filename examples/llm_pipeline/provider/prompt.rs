//! What the model is asked: one instruction and one text for each kind of step.
//!
//! The first word of an instruction is its kind; the stand-in, which can't read, goes by it. Layer: below `provider`.

use crate::document::Section;
use crate::pipeline::Summary;

/// A question to a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) instruction: String,
    pub(crate) text: String,
}

impl Prompt {
    pub(crate) fn summarize(section: &Section) -> Self {
        Self {
            instruction: "Summarize the section in at most two plain sentences. Answer with them and nothing else."
                .to_owned(),
            text: format!("# {}\n\n{}", section.title, section.text),
        }
    }

    pub(crate) fn combine(sections: &[Summary]) -> Self {
        let text: Vec<String> =
            sections.iter().map(|section| format!("# {}\n\n{}", section.title, section.text)).collect();
        Self {
            instruction: "Combine the summaries of a document's sections into one paragraph of at most 100 words. \
                          Answer with it and nothing else."
                .to_owned(),
            text: text.join("\n\n"),
        }
    }

    pub(crate) fn translate(text: &str, language: &str) -> Self {
        Self {
            instruction: format!("Translate the text into {language}. Answer with the translation and nothing else."),
            text: text.to_owned(),
        }
    }

    pub(crate) fn verify(summary: &str, korean: &str, japanese: &str) -> Self {
        Self {
            instruction: "Verify that both translations say what the summary says. Answer with one JSON object and \
                          nothing else: {\"verdict\": \"pass\", \"fail\" or \"unclear\", \"note\": one sentence in English}."
                .to_owned(),
            text: format!("# Summary\n\n{summary}\n\n# Korean\n\n{korean}\n\n# Japanese\n\n{japanese}"),
        }
    }
}

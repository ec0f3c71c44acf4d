//! Documents: read and checked, named, and split in sections.
//!
//! Guarantees that the same text under the same file name has the same id on every machine, and that splitting
//! depends on the text alone, so a workflow may do it. Knows nothing of models or workflows. Layer: below `pipeline`.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

/// What the program works on when no file is named. In the program itself, so that it runs in any folder.
const SAMPLES: [(&str, &str); 2] = [
    ("fresnel-lens", include_str!("documents/fresnel-lens.md")),
    ("longitude", include_str!("documents/longitude.md")),
];

/// Characters of a section at most: a longer one is split between paragraphs, so that each call stays small.
const SECTION_CHARS: usize = 6_000;

/// A text with a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// The workflow's id: the name and a short hash of the text. The same document is the same run.
    pub(crate) id: String,
    /// The file's name without its extension: what people call it.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A part of a document under one heading.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) text: String,
}

impl Document {
    fn new(name: &str, text: &str) -> Self {
        let name = plain_name(name);
        // 32 of the hash's 64 bits: the name takes part as well, and a clash is refused at start, never mixed up.
        let id = format!("{name}-{:08x}", xxh3_64(text.as_bytes()) >> 32);
        Self { id, name, text: text.to_owned() }
    }

    /// # Errors
    /// If the file is missing, unreadable, not text, or has nothing to summarize.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let bytes = fs::read(path).with_context(|| format!("cannot read document `{shown}`"))?;
        let text = match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => text,
            _ => bail!("document `{shown}` is not text: give a Markdown or plain text file in UTF-8"),
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if split(text).is_empty() {
            bail!("document `{shown}` is empty: there is nothing to summarize");
        }
        let stem = path.file_stem().map_or_else(|| "document".into(), |stem| stem.to_string_lossy());
        Ok(Self::new(&stem, text))
    }

    pub(crate) fn sections(&self) -> usize {
        split(&self.text).len()
    }
}

/// The documents of the command line, each once.
///
/// # Errors
/// The first file that can't be used, in words.
pub(crate) fn read_all(paths: &[impl AsRef<Path>]) -> anyhow::Result<Vec<Document>> {
    let mut documents: Vec<Document> = Vec::new();
    for path in paths {
        let document = Document::read(path.as_ref())?;
        if !documents.contains(&document) {
            documents.push(document);
        }
    }
    Ok(documents)
}

/// The two documents that ship with the program.
pub(crate) fn samples() -> Vec<Document> {
    SAMPLES.iter().map(|(name, text)| Document::new(name, text)).collect()
}

/// The part of an id that people know: the inverse of [`Document::id`], for a run whose file isn't at hand.
pub(crate) fn name_of(id: &str) -> &str {
    match id.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 8 && !name.is_empty() => name,
        _ => id,
    }
}

/// The first heading, else the first line.
pub(crate) fn title(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next().unwrap_or("Untitled");
    lines.find_map(heading).unwrap_or(first).to_owned()
}

/// The sections in order, without those that have no text. Headings inside code fences are text.
pub(crate) fn split(text: &str) -> Vec<Section> {
    let mut sections = vec![Section { title: title(text), text: String::new() }];
    let mut fenced = false;
    for line in text.lines() {
        let fence = ["```", "~~~"].iter().any(|mark| line.trim_start().starts_with(mark));
        fenced ^= fence;
        match heading(line).filter(|_| !fenced && !fence) {
            Some(title) => sections.push(Section { title: title.to_owned(), text: String::new() }),
            None => {
                if let Some(section) = sections.last_mut() {
                    section.text.push_str(line);
                    section.text.push('\n');
                }
            }
        }
    }
    sections.into_iter().flat_map(pieces).collect()
}

/// The words of a Markdown heading such as `## Words`.
fn heading(line: &str) -> Option<&str> {
    let marks = line.len() - line.trim_start_matches('#').len();
    let words = line.get(marks..)?;
    let is_heading = (1..=6).contains(&marks) && words.starts_with([' ', '\t']);
    Some(words.trim().trim_end_matches('#').trim()).filter(|words| is_heading && !words.is_empty())
}

/// A section as pieces of at most [`SECTION_CHARS`], cut between paragraphs where there are any.
fn pieces(section: Section) -> Vec<Section> {
    let mut texts: Vec<String> = Vec::new();
    let mut room = 0;
    for paragraph in section.text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        let chars: Vec<char> = paragraph.chars().collect();
        for part in chars.chunks(SECTION_CHARS) {
            match texts.last_mut() {
                Some(text) if part.len() + 2 <= room => {
                    text.push_str("\n\n");
                    text.extend(part);
                    room -= part.len() + 2;
                }
                _ => {
                    texts.push(part.iter().collect());
                    room = SECTION_CHARS - part.len();
                }
            }
        }
    }
    let several = texts.len() > 1;
    let titled = |(index, text)| {
        let title = if several { format!("{} ({})", section.title, index + 1) } else { section.title.clone() };
        Section { title, text }
    };
    texts.into_iter().enumerate().map(titled).collect()
}

/// A name that is fit for an id and a file: letters and digits of any script, `-`, `_` and `.` inside.
fn plain_name(name: &str) -> String {
    let fit = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(fit).take(60).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "document".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(text: &str) -> Vec<String> {
        split(text).into_iter().map(|section| section.title).collect()
    }

    #[test]
    fn sections_follow_the_headings() {
        assert_eq!(titles("# T\n\nlead\n\n## A\n\na\n\n### B ##\nb\n"), ["T", "A", "B"]);
        assert_eq!(titles("before\n\n# A\na"), ["A", "A"]);
        assert_eq!(titles("no heading at all\nand more"), ["no heading at all"]);
        assert_eq!(titles("# T\r\n\r\n## A\r\na\r\n"), ["A"]);
    }

    #[test]
    fn a_heading_without_text_is_no_section() {
        assert_eq!(titles("# T\n## A\n\n## B\nb\n"), ["B"]);
        assert!(split("").is_empty() && split(" \n\n").is_empty() && split("# only a title\n").is_empty());
    }

    #[test]
    fn what_looks_like_a_heading_is_text() {
        assert_eq!(titles("# T\n```sh\n# a comment\n```\n#hashtag\n####### seven\n"), ["T"]);
    }

    #[test]
    fn a_long_section_is_cut_and_nothing_is_lost() {
        let paragraph = "word ".repeat(700);
        let text = format!("# T\n\n{paragraph}\n\n{paragraph}\n\n{}", "x".repeat(13_000));
        let sections = split(&text);
        assert!(sections.len() >= 4 && sections.iter().all(|section| section.text.chars().count() <= SECTION_CHARS));
        assert_eq!(sections[1].title, "T (2)");
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
        assert_eq!(sections.iter().map(|section| letters(&section.text)).sum::<usize>(), letters(&text) - 1);
    }

    #[test]
    fn the_id_is_the_documents() {
        let document = Document::new("notes", "# T\n\ntext\n");
        assert_eq!(document, Document::new("notes", "# T\n\ntext\n"));
        // Written down: another value would make every user's next run a new one.
        assert_eq!(document.id, "notes-2a010739");
        assert_ne!(document.id, Document::new("notes", "# T\n\ntext!\n").id);
        assert_eq!(name_of(&document.id), "notes");
        assert_eq!((name_of("x"), name_of("a-b")), ("x", "a-b"));
    }

    #[test]
    fn names_become_fit_for_ids_and_files() {
        assert_eq!(plain_name("My notes: v1.2/a"), "My-notes--v1.2-a");
        assert_eq!(plain_name("보고서"), "보고서");
        assert_eq!(plain_name(" .. "), "document");
        assert_eq!(plain_name(&"x".repeat(300)).len(), 60);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let reason = |name: &str, content: Option<&[u8]>| {
            let path = folder.path().join(name);
            if let Some(content) = content {
                fs::write(&path, content).unwrap();
            }
            format!("{:#}", read_all(&[path]).unwrap_err())
        };
        assert!(reason("missing.md", None).contains("missing.md`: No such file"));
        assert!(reason("photo.jpg", Some(&[0xff, 0xd8, 0xff])).contains("photo.jpg` is not text"));
        assert!(reason("zero.md", Some(b"a\0b")).contains("zero.md` is not text"));
        assert!(reason("empty.md", Some(b"\n \n")).contains("empty.md` is empty"));
        assert!(format!("{:#}", read_all(&[folder.path()]).unwrap_err()).contains("cannot read"));
    }

    #[test]
    fn the_same_document_twice_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.md");
        fs::write(&path, "\u{feff}# T\ntext").unwrap();
        let documents = read_all(&[&path, &path]).unwrap();
        assert_eq!((documents.len(), title(&documents[0].text).as_str()), (1, "T"));
    }

    #[test]
    fn the_samples_have_several_sections() {
        assert!(samples().iter().all(|sample| sample.sections() >= 5));
    }
}

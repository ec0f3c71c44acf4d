//! Reports: 80 columns for the terminal, Markdown for the file, both in one go or not at all.
//!
//! Guarantees that a report file is whole whenever the process is killed. Layer: below `main`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::atomic;
use crate::pipeline::Report;

/// Columns of the terminal report, and of the labels in it.
const WIDTH: usize = 80;
const LABEL: usize = 11;

/// Makes the folder and proves that it can be written, before a model is asked anything.
///
/// # Errors
/// In words, if it can't.
pub(crate) fn prepare(folder: &Path) -> anyhow::Result<()> {
    let probe = folder.join(".probe");
    fs::create_dir_all(folder)
        .and_then(|()| atomic::replace(&probe, b""))
        .and_then(|()| fs::remove_file(&probe))
        .with_context(|| format!("cannot write reports to the folder `{}`", folder.display()))
}

/// Writes `<folder>/<name>.md`.
///
/// # Errors
/// In words, if the file can't be replaced; it is then as it was.
pub(crate) fn write(folder: &Path, name: &str, id: &str, report: &Report) -> anyhow::Result<PathBuf> {
    let path = folder.join(format!("{name}.md"));
    atomic::replace(&path, markdown(id, report).as_bytes())
        .with_context(|| format!("cannot write the report `{}`", path.display()))?;
    Ok(path)
}

/// The report for a terminal, an empty line before it.
pub(crate) fn terminal(path: &Path, id: &str, report: &Report) -> String {
    let rule = "─".repeat(WIDTH);
    let count = match report.sections.len() {
        1 => "1 section".to_owned(),
        sections => format!("{sections} sections"),
    };
    let room = WIDTH - count.width() - 2;
    let title = match wrap(&report.title, room).as_slice() {
        [title] => title.clone(),
        // Room for the dots, which are one column wide.
        _ => format!("{}…", wrap(&report.title, room - 1).into_iter().next().unwrap_or_default()),
    };
    let gap = " ".repeat(WIDTH - title.width() - count.width());
    let mut text = format!("\n{rule}\n{title}{gap}{count}\n{rule}\n");
    let verdict = verdict(report);
    let (by, file) = (by(report), path.display().to_string());
    let rows = [
        ("Summary", report.summary.as_str()),
        ("Korean", &report.korean),
        ("Japanese", &report.japanese),
        ("Verdict", &verdict),
        ("By", &by),
        ("Run", id),
        ("File", &file),
    ];
    for (label, value) in rows {
        for (index, line) in wrap(value, WIDTH - LABEL).iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            text.push_str(format!("{label:LABEL$}{line}").trim_end());
            text.push('\n');
        }
        if matches!(label, "Summary" | "Korean" | "Japanese") {
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn markdown(id: &str, report: &Report) -> String {
    let Report { title, sections, summary, korean, japanese, .. } = report;
    let mut text = format!("# {title}\n\n*Run `{id}`, by {}.*\n\n", by(report));
    text.push_str(&format!("{summary}\n\n## 한국어\n\n{korean}\n\n## 日本語\n\n{japanese}\n\n"));
    text.push_str(&format!("## Verdict\n\n{}\n\n## Section by section\n", verdict(report)));
    for section in sections {
        text.push_str(&format!("\n### {}\n\n{}\n", section.title, section.text));
    }
    text
}

fn verdict(report: &Report) -> String {
    let verdict = &report.verdict;
    if verdict.note.is_empty() { verdict.verdict.clone() } else { format!("{}: {}", verdict.verdict, verdict.note) }
}

fn by(report: &Report) -> String {
    let models = report.models.join(", ");
    if report.models.iter().any(|model| model == "stand-in") {
        format!("{models}, which is no model: this shows the flow, not a translation")
    } else {
        models
    }
}

/// Lines of at most `width` columns. Breaks at spaces and, since Japanese has none, between its characters; a
/// word that is wider than a line is cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace().flat_map(atoms) {
        let (word, glued) = word;
        let Some(line) = lines.last_mut() else { break };
        let space = usize::from(!glued && !line.is_empty());
        if line.width() + space + word.width() <= width {
            line.extend((space == 1).then_some(' '));
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(String::new());
        }
        for c in word.chars() {
            let c_width = c.width().unwrap_or(0);
            if lines.last().is_some_and(|line| line.width() + c_width > width) {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
        }
    }
    lines
}

/// The parts of a word that stay together, and whether a part is joined to the one before it. Punctuation that may
/// not begin a line stays with the character before it.
fn atoms(word: &str) -> Vec<(&str, bool)> {
    let mut starts = vec![0];
    let mut before_is_wide = false;
    for (index, c) in word.char_indices() {
        // Korean has spaces, and reads better broken at them.
        let wide = c.width() == Some(2) && !('\u{ac00}'..='\u{d7a3}').contains(&c);
        if index > 0 && (wide || before_is_wide) && !"、。，．！？」』）・：；ー,.!?)]\"'".contains(c) {
            starts.push(index);
        }
        before_is_wide = wide;
    }
    let ends = starts.iter().skip(1).copied().chain([word.len()]);
    let parts = starts.iter().zip(ends).filter_map(|(&start, end)| Some((word.get(start..end)?, start > 0)));
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{Summary, Verdict};

    fn report() -> Report {
        Report {
            title: "A title that goes on for much longer than anybody would expect of a title in a report".into(),
            models: vec!["stand-in".into()],
            sections: vec![Summary { title: "One".into(), text: "First.".into() }],
            summary: "The quick brown fox jumps over the lazy dog. ".repeat(6),
            korean: "빠른 갈색 여우가 게으른 개를 뛰어넘습니다. ".repeat(6),
            japanese: "素早い茶色の狐がのろまな犬を飛び越えます。".repeat(6),
            verdict: Verdict { verdict: "pass".into(), note: String::new() },
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let text = terminal(Path::new("reports/a.md"), "a-00000000", &report());
        assert!(text.lines().all(|line| line.width() <= WIDTH && line == line.trim_end()), "{text}");
        assert!(text.contains("犬") && text.contains("여우가") && text.contains("reports/a.md"));
    }

    #[test]
    fn words_wrap_at_spaces_and_between_wide_characters() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(wrap("日本語です。", 6), ["日本語", "です。"]);
        assert_eq!(wrap("語。", 2), ["語", "。"]);
        assert_eq!(wrap("게으른 개를", 9), ["게으른", "개를"]);
        assert_eq!(wrap("x 日本y", 80), ["x 日本y"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn the_file_is_whole_and_says_who_wrote_it() {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path()).unwrap();
        let path = write(folder.path(), "a", "a-00000000", &report()).unwrap();
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains("no model") && text.contains("### One\n\nFirst.\n") && text.contains("a-00000000"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reports");
        fs::write(&path, "a file").unwrap();
        let error = format!("{:#}", prepare(&path).unwrap_err());
        assert!(error.starts_with("cannot write reports to the folder"), "{error}");
    }
}

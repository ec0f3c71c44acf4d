//! What is shown while workflows run: bars on a terminal, lines in a pipe, and what came from checkpoints.
//!
//! Fed by the runtime's events, which come after the commit they tell of. Progress goes to stderr, so that stdout
//! holds what was recovered and the reports. Also the place where `--crash-after` kills the process. Layer: below `main`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use durable::Event;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use unicode_width::UnicodeWidthStr;

use crate::document::{Document, name_of};

/// The steps of a document, in order.
const STEPS: [&str; 4] = ["summarize", "combine", "translate", "verify"];

pub(crate) struct Progress {
    /// Checkpoints until this process kills itself.
    crash_after: Option<u64>,
    /// `None` where lines are written.
    bars: Option<MultiProgress>,
    /// Columns of the longest name.
    width: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    checkpoints: u64,
    runs: BTreeMap<String, Run>,
}

/// One workflow, as far as this process has seen it.
#[derive(Default)]
struct Run {
    /// `None` for a run whose document isn't at hand.
    sections: Option<u64>,
    done: BTreeMap<String, u64>,
    /// Replayed and not yet told, by step.
    replayed: BTreeMap<String, u64>,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(crash_after: Option<u64>, documents: &[Document]) -> Self {
        let terminal = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let known = |document: &Document| {
            let run = Run { sections: Some(document.sections() as u64), ..Run::default() };
            (document.id.clone(), run)
        };
        Self {
            crash_after,
            bars: terminal.then(MultiProgress::new),
            width: documents.iter().map(|document| document.name.width()).max().unwrap_or(0),
            state: Mutex::new(State { checkpoints: 0, runs: documents.iter().map(known).collect() }),
        }
    }

    /// Takes an event of the runtime; called by it, in its own tasks, so it neither waits nor fails.
    pub(crate) fn observe(&self, event: &Event) {
        match event {
            Event::Replayed { workflow_id, step_name, .. } => self.replayed(workflow_id, step_name),
            Event::Checkpoint { workflow_id, step_name, .. } => {
                self.checkpoint(workflow_id, step_name);
                self.crash_if_asked();
            }
            Event::Retry { workflow_id, step_name, attempt, error, next_attempt_in, .. } => {
                let line = format!("{step_name} failed (attempt {attempt}), again in {next_attempt_in:.1?}: {error}");
                self.warn(self.line(workflow_id, &line));
            }
            Event::Ended { workflow_id, .. } => self.ended(workflow_id),
            _ => {}
        }
    }

    /// A line on stdout. A reader that has left, as `| head` does, ends neither the program nor its workflows.
    pub(crate) fn say(&self, line: impl Display) {
        self.aside(|| drop(writeln!(std::io::stdout(), "{line}")));
    }

    /// A line on stderr.
    pub(crate) fn warn(&self, line: impl Display) {
        self.aside(|| drop(writeln!(std::io::stderr(), "{line}")));
    }

    /// Prints without disturbing the bars.
    fn aside(&self, print: impl FnOnce()) {
        match &self.bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        }
    }

    fn replayed(&self, id: &str, step: &str) {
        if !STEPS.contains(&step) {
            return;
        }
        let mut state = self.state();
        let run = state.runs.entry(id.to_owned()).or_default();
        *run.replayed.entry(step.to_owned()).or_default() += 1;
        *run.done.entry(step.to_owned()).or_default() += 1;
        self.advance(id, run, step);
    }

    fn checkpoint(&self, id: &str, step: &str) {
        let mut state = self.state();
        state.checkpoints += 1;
        if !STEPS.contains(&step) {
            return;
        }
        let run = state.runs.entry(id.to_owned()).or_default();
        let replayed = run.tell_replayed();
        *run.done.entry(step.to_owned()).or_default() += 1;
        let stage = run.stage(step);
        self.advance(id, run, step);
        drop(state);
        if let Some(replayed) = replayed {
            self.say(self.line(id, &replayed));
        }
        if self.bars.is_none() {
            self.warn(self.line(id, &stage));
        }
    }

    fn ended(&self, id: &str) {
        let mut state = self.state();
        let Some(run) = state.runs.get_mut(id) else { return };
        let replayed = run.tell_replayed();
        if let Some(bar) = run.bar.take() {
            bar.finish_and_clear();
        }
        drop(state);
        if let Some(replayed) = replayed {
            self.say(self.line(id, &replayed));
        }
    }

    /// Moves the run's bar, if there are bars.
    fn advance(&self, id: &str, run: &mut Run, step: &str) {
        let Some(bars) = &self.bars else { return };
        let stage = run.stage(step);
        let total = run.sections.map(|sections| sections + 4);
        let bar = run.bar.get_or_insert_with(|| {
            let bar = bars.add(total.map_or_else(ProgressBar::no_length, ProgressBar::new));
            if let Ok(style) = ProgressStyle::with_template("{prefix}{bar:32.green} {pos:>3}/{len}  {msg}") {
                bar.set_style(style.progress_chars("━╸─"));
            }
            bar.with_prefix(self.line(id, ""))
        });
        bar.set_message(stage);
        bar.inc(1);
    }

    /// The words behind the run's name, which is as wide as the longest.
    fn line(&self, id: &str, words: &str) -> String {
        let name = name_of(id);
        format!("{name}{}  {words}", " ".repeat(self.width.saturating_sub(name.width())))
    }

    fn crash_if_asked(&self) {
        let checkpoints = self.state().checkpoints;
        if self.crash_after.is_some_and(|after| checkpoints >= after) {
            self.warn(format_args!(
                "\ncheckpoint {checkpoints} is committed: killing this process, as `--crash-after` asks"
            ));
            // No destructor and no shutdown runs, as with a power cut.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// A panic elsewhere leaves nothing half-done in it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// For example `summarize [3/7]`.
    fn stage(&self, step: &str) -> String {
        let done = self.done.get(step).copied().unwrap_or(0);
        let of = match step {
            "summarize" => self.sections,
            "translate" => Some(2),
            _ => Some(1),
        };
        of.map_or_else(|| format!("{step} [{done}]"), |of| format!("{step} [{done}/{of}]"))
    }

    /// For example `from checkpoints: 3 × summarize, combine`, once.
    fn tell_replayed(&mut self) -> Option<String> {
        let replayed = std::mem::take(&mut self.replayed);
        let words = STEPS.iter().filter_map(|&step| match replayed.get(step)? {
            1 => Some(step.to_owned()),
            count => Some(format!("{count} × {step}")),
        });
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| format!("from checkpoints: {}", words.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replayed_steps_are_told_once_and_grouped() {
        let replayed = [("combine".to_owned(), 1), ("summarize".to_owned(), 3)].into();
        let mut run = Run { replayed, ..Run::default() };
        assert_eq!(run.tell_replayed().as_deref(), Some("from checkpoints: 3 × summarize, combine"));
        assert_eq!(run.tell_replayed(), None);
    }

    #[test]
    fn a_stage_counts_replayed_and_new_steps() {
        let document = Document { id: "a-00000000".into(), name: "a".into(), text: "# A\na\n# B\nb\n".into() };
        let progress = Progress::new(None, std::slice::from_ref(&document));
        progress.replayed(&document.id, "summarize");
        progress.checkpoint(&document.id, "summarize");
        progress.checkpoint(&document.id, "something else");
        let state = progress.state();
        let run = &state.runs[&document.id];
        assert_eq!(
            (run.stage("summarize"), run.stage("translate")),
            ("summarize [2/2]".into(), "translate [0/2]".into())
        );
        assert_eq!((state.checkpoints, run.replayed.len()), (2, 0));
    }

    #[test]
    fn a_run_of_somebody_else_has_no_total() {
        let progress = Progress::new(None, &[]);
        progress.checkpoint("b-00000000", "summarize");
        assert_eq!(progress.state().runs["b-00000000"].stage("summarize"), "summarize [1]");
    }
}

//! Replay: what a durable call gets from the history. Pure decisions, no I/O.
//!
//! Guarantees that a recorded outcome goes only to the call that recorded it: same branch, same index, same kind and
//! name. Call sites are shown and never compared, since a comment shifts lines. Layer: above the model.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::codec::Outcome;
use crate::ids::StepKey;
use crate::model::{HistoryRows, Micros, Site, StepRecord};

/// The history of one workflow, consumed call by call.
#[derive(Debug, Default)]
pub(crate) struct History {
    steps: HashMap<(Arc<str>, i32), StepRecord>,
    progress: HashMap<(Arc<str>, i32), Progress>,
    /// Calls that opened branches, known by the rows in their arms.
    opened: HashSet<(Arc<str>, i32)>,
    last_seq: i64,
}

/// How far a step without an outcome has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The last attempt recorded, counted over the life of the workflow.
    pub(crate) attempt: i32,
    /// Failed attempts that count against `max_attempts`: those of the current series.
    pub(crate) used: i32,
    /// When the next attempt is due.
    pub(crate) next_attempt_at: Option<Micros>,
}

/// A durable call, as the code asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) key: &'a StepKey,
    pub(crate) kind: &'a str,
    pub(crate) site: &'a Site,
    pub(crate) args_hash: Option<i64>,
}

/// What the call gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing is recorded: run it, from this progress on.
    Run(Progress),
    /// The recorded outcome.
    Replay {
        /// As recorded.
        outcome: Outcome,
        /// True if the arguments have another hash than those recorded.
        other_arguments: bool,
    },
    /// The history has another call here, or one that can't be read: the text says which, and what to do.
    Blocked(String),
}

impl History {
    pub(crate) fn new(rows: HistoryRows) -> Self {
        let mut history = Self { steps: HashMap::with_capacity(rows.steps.len()), ..Self::default() };
        for row in rows.attempts {
            let progress = history.progress.entry((row.branch, row.step_index)).or_default();
            progress.attempt = progress.attempt.max(row.attempt);
            match row.status.as_str() {
                // The last of its series: an earlier workflow attempt, which does not count.
                "failed" => (progress.used, progress.next_attempt_at) = (0, None),
                "retrying" => {
                    progress.used += 1;
                    progress.next_attempt_at = row.next_attempt_at;
                }
                // `running`: it was cut off by a crash, and that is no failure of the step's.
                _ => {}
            }
        }
        for row in rows.steps {
            history.last_seq = history.last_seq.max(row.seq);
            history.opened.extend(openers(&row.branch));
            history.steps.insert((Arc::clone(&row.branch), row.step_index), row);
        }
        history
    }

    /// The highest order number in it.
    pub(crate) fn last_seq(&self) -> i64 {
        self.last_seq
    }

    /// True if nothing is recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.progress.is_empty()
    }

    /// How many outcomes it holds.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// What the call gets. Each key is asked for once.
    pub(crate) fn decide(&mut self, request: &Request<'_>) -> Decision {
        if self.is_empty() {
            return Decision::Run(Progress::default());
        }
        let at = (Arc::clone(&request.key.branch), request.key.index);
        if request.kind != RACE && self.opened.contains(&at) {
            return Decision::Blocked(format!(
                "diverged at {}: recorded are arms of a `join!`, `try_join!` or `map`, requested is {} (called at {}, defined \
                 at {}){USUAL_CAUSE}",
                request.key,
                call(request.kind, &request.site.step_name),
                request.site.call,
                request.site.definition,
            ));
        }
        let Some(record) = self.steps.get(&at) else {
            return Decision::Run(self.progress.get(&at).copied().unwrap_or_default());
        };
        if record.kind != request.kind || record.step_name != *request.site.step_name {
            return Decision::Blocked(self.divergence(record, request));
        }
        match &record.outcome {
            Ok(outcome) => Decision::Replay {
                outcome: outcome.clone(),
                other_arguments: matches!((record.args_hash, request.args_hash), (Some(a), Some(b)) if a != b),
            },
            Err(why) => Decision::Blocked(format!(
                "the recorded outcome of {} at {} can't be read: {why}; repair the row in workflow_steps, then resume the workflow",
                call(request.kind, &request.site.step_name),
                request.key,
            )),
        }
    }

    fn divergence(&self, record: &StepRecord, request: &Request<'_>) -> String {
        let mut text = format!(
            "diverged at {}: recorded is {} (called at {}, defined at {}), requested is {} (called at {}, defined at {})",
            request.key,
            call(&record.kind, &record.step_name),
            record.call_site,
            record.definition_site,
            call(request.kind, &request.site.step_name),
            request.site.call,
            request.site.definition,
        );
        let neighbour = |offset: i32| {
            let index = request.key.index.checked_add(offset)?;
            self.steps.get(&(Arc::clone(&request.key.branch), index))
        };
        for (word, record) in [("before", neighbour(-1)), ("after", neighbour(1))] {
            if let Some(record) = record {
                // Writing to a string can't fail.
                let _ = write!(text, "; recorded {word} it: {}", call(&record.kind, &record.step_name));
            }
        }
        text.push_str(USUAL_CAUSE);
        text
    }
}

/// What the kind of a concurrent call is recorded as, if it is recorded at all.
pub(crate) const RACE: &str = "race";

const USUAL_CAUSE: &str = "; usual cause: the code changed under a running workflow, or it branches on something that is not \
     recorded, such as time, randomness or the order of a HashMap; deploy code that makes the recorded call here, then resume \
     the workflow";

/// The calls that opened a branch and those around it.
fn openers(branch: &str) -> Vec<(Arc<str>, i32)> {
    if branch.is_empty() {
        return Vec::new();
    }
    let parts: Vec<&str> = branch.split('.').collect();
    // The path alternates: an index, then an arm.
    let indexes = (0..parts.len()).step_by(2);
    indexes.filter_map(|at| Some((parts[..at].join(".").into(), parts[at].parse().ok()?))).collect()
}

fn call(kind: &str, name: &str) -> String {
    if kind == name { format!("`{name}`") } else { format!("{kind} `{name}`") }
}

#[cfg(test)]
mod tests;

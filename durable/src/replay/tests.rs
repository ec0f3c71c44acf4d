//! Properties of the decisions, over random histories. A failure names the seed that makes it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Decision, History, Progress, Request};
use crate::codec::{Codec, Data, Outcome, Payload};
use crate::ids::StepKey;
use crate::model::{AttemptRecord, HistoryRows, Site, StepRecord};

const ROUNDS: u64 = 2_000;
const BRANCHES: [&str; 6] = ["", "0.0", "0.1", "0.1.2.0", "3.0", "10.0"];
const NAMES: [&str; 3] = ["charge", "ship", "mail"];

fn outcome(text: String) -> Outcome {
    Outcome::Done(Payload { codec: Codec::Json.id(), data: Data::Text(text) })
}

fn step(branch: &str, index: i32, name: &str, seq: i64) -> StepRecord {
    StepRecord {
        branch: branch.into(),
        step_index: index,
        seq,
        kind: "step".to_owned(),
        step_name: name.to_owned(),
        outcome: Ok(outcome(format!("\"{branch}/{index}\""))),
        args_hash: Some(i64::from(index)),
        call_site: format!("old.rs:{index}:1"),
        definition_site: "old.rs:1:1".to_owned(),
        write_id: seq,
    }
}

/// Some branches with some steps each, and names by key, in a random order of commits.
fn random_history(random: &mut fastrand::Rng) -> (Vec<StepRecord>, BTreeMap<(&'static str, i32), &'static str>) {
    let mut keys = BTreeMap::new();
    for branch in BRANCHES {
        // Indexes that open branches hold no step.
        for index in (0..random.i32(0..6)).map(|n| n + 20) {
            keys.insert((branch, index), NAMES[random.usize(..NAMES.len())]);
        }
    }
    let mut order: Vec<_> = keys.iter().collect();
    random.shuffle(&mut order);
    let rows = order.into_iter().zip(1..).map(|((&(branch, index), name), seq)| step(branch, index, name, seq));
    (rows.collect(), keys)
}

fn ask(history: &mut History, kind: &str, name: &str, branch: &str, index: i32, hash: Option<i64>) -> Decision {
    let key = StepKey { branch: branch.into(), index };
    let site = Site { step_name: name.into(), call: "new.rs:9:9".into(), definition: "new.rs:1:1".into() };
    history.decide(&Request { key: &key, kind, site: &site, args_hash: hash })
}

fn for_random_histories(
    mut check: impl FnMut(&mut fastrand::Rng, Vec<StepRecord>, &BTreeMap<(&'static str, i32), &'static str>),
) {
    let first = fastrand::u64(..);
    for seed in (0..ROUNDS).map(|round| first.wrapping_add(round)) {
        let told = Told(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let (rows, keys) = random_history(&mut random);
        check(&mut random, rows, &keys);
        drop(told);
    }
}

/// Says the seed if it is dropped by a panic.
struct Told(u64);

impl Drop for Told {
    #[expect(clippy::print_stderr, reason = "the test is failing")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

#[test]
fn each_call_gets_its_own_outcome_whatever_the_order_of_commits_and_calls() {
    for_random_histories(|random, rows, keys| {
        let mut history = History::new(HistoryRows { steps: rows, attempts: Vec::new() });
        assert_eq!((history.len(), history.last_seq()), (keys.len(), i64::try_from(keys.len()).unwrap()));
        let mut calls: Vec<_> = keys.iter().collect();
        random.shuffle(&mut calls);
        for (&(branch, index), name) in calls {
            let decision = ask(&mut history, "step", name, branch, index, Some(i64::from(index)));
            let expected =
                Decision::Replay { outcome: outcome(format!("\"{branch}/{index}\"")), other_arguments: false };
            assert_eq!(decision, expected, "{branch}/{index}");
        }
    });
}

#[test]
fn no_other_call_gets_an_outcome() {
    for_random_histories(|random, rows, keys| {
        let mut history = History::new(HistoryRows { steps: rows, attempts: Vec::new() });
        for (&(branch, index), name) in keys {
            let (kind, other) = if random.bool() { ("step", "renamed") } else { ("now", *name) };
            let Decision::Blocked(text) = ask(&mut history, kind, other, branch, index, None) else {
                panic!("{kind} {other} at {branch}/{index}")
            };
            for part in [*name, other, "old.rs:", "new.rs:9:9", &index.to_string()] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(branch.is_empty() || text.contains(&format!("branch {branch}")), "{text}");
        }
    });
}

#[test]
fn a_call_without_a_row_runs_from_the_beginning() {
    for_random_histories(|random, rows, keys| {
        let mut history = History::new(HistoryRows { steps: rows, attempts: Vec::new() });
        let branch = BRANCHES[random.usize(..BRANCHES.len())];
        let index = random.i32(20..40);
        if !keys.contains_key(&(branch, index)) {
            assert_eq!(ask(&mut history, "step", "charge", branch, index, None), Decision::Run(Progress::default()));
        }
    });
}

#[test]
fn other_arguments_are_told_where_both_are_known_and_change_nothing_else() {
    for (recorded, requested, other) in
        [(Some(1), Some(1), false), (Some(1), Some(2), true), (None, Some(2), false), (Some(1), None, false)]
    {
        let row = StepRecord { args_hash: recorded, ..step("", 0, "charge", 1) };
        let mut history = History::new(HistoryRows { steps: vec![row], attempts: Vec::new() });
        let decision = ask(&mut history, "step", "charge", "", 0, requested);
        assert_eq!(decision, Decision::Replay { outcome: outcome("\"/0\"".to_owned()), other_arguments: other });
    }
}

#[test]
fn a_row_that_cannot_be_read_blocks_its_call_alone() {
    let bad = StepRecord { outcome: Err("the row has neither text nor bytes".to_owned()), ..step("", 1, "ship", 2) };
    let rows = vec![step("", 0, "charge", 1), bad];
    let mut history = History::new(HistoryRows { steps: rows, attempts: Vec::new() });
    assert!(matches!(ask(&mut history, "step", "charge", "", 0, None), Decision::Replay { .. }));
    let Decision::Blocked(text) = ask(&mut history, "step", "ship", "", 1, None) else { panic!("it can't be read") };
    assert!(text.contains("`ship` at step 1") && text.contains("neither text nor bytes"), "{text}");
    assert!(text.contains("repair the row"), "{text}");
}

#[test]
fn attempts_of_the_present_series_count_and_no_others() {
    for_random_histories(|random, _, _| {
        let statuses: Vec<_> =
            (0..random.usize(0..12)).map(|_| ["failed", "retrying", "running"][random.usize(..3)]).collect();
        let attempts = statuses.iter().zip(1..).map(|(status, attempt)| AttemptRecord {
            branch: Arc::from(""),
            step_index: 0,
            attempt,
            status: (*status).to_owned(),
            next_attempt_at: (*status == "retrying").then(|| i64::from(attempt) * 10),
        });
        let mut history = History::new(HistoryRows { steps: Vec::new(), attempts: attempts.collect() });
        let series = statuses.rsplit(|status| *status == "failed").next().unwrap_or_default();
        let start = statuses.len() - series.len();
        let last = series.iter().rposition(|status| *status == "retrying");
        let expected = Progress {
            attempt: i32::try_from(statuses.len()).unwrap(),
            used: i32::try_from(series.iter().filter(|status| **status == "retrying").count()).unwrap(),
            next_attempt_at: last.map(|at| i64::try_from(start + at + 1).unwrap() * 10),
        };
        assert_eq!(ask(&mut history, "step", "charge", "", 0, None), Decision::Run(expected), "{statuses:?}");
    });
}

//! What a start may be told: queue, priority, due time, keys, tags, prerequisites. Layer: client.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::handle::WorkflowHandle;
use crate::codec::Payload;
use crate::error::{Error, ErrorKind};
use crate::ids::{check_key, check_workflow_id};
use crate::model::{Due, EnqueueRow, Prerequisite};
use crate::registry::Workflow;

/// Tags that a workflow has at most.
const MAX_TAGS: usize = 100;

/// The longest delay: a thousand years. What is longer is a mistake, and overflows sooner or later.
const MAX_DELAY: Duration = Duration::from_secs(1_000 * 366 * 86_400);

/// The last moment that both databases can tell: the end of the year 9999, in seconds since 1970.
const MAX_TIME: Duration = Duration::from_secs(253_402_300_799);

/// What happens to a start whose dedup key an unfinished run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDuplicate {
    /// It gives a handle on that run, whatever its input; nothing is recorded.
    #[default]
    ReturnExisting,
    /// It fails with [`ErrorKind::Duplicate`], which names that run; nothing is recorded.
    Reject,
}

/// A run by its id, as others wait for it: a handle, or the id as text.
pub trait RunId {
    /// The workflow's id.
    fn run_id(&self) -> &str;
}

impl<W: Workflow> RunId for WorkflowHandle<W> {
    fn run_id(&self) -> &str {
        self.id()
    }
}

impl RunId for str {
    fn run_id(&self) -> &str {
        self
    }
}

impl RunId for String {
    fn run_id(&self) -> &str {
        self
    }
}

impl<R: RunId + ?Sized> RunId for &R {
    fn run_id(&self) -> &str {
        (**self).run_id()
    }
}

/// What a start was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) id: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) priority: i32,
    pub(super) delay: Option<Duration>,
    pub(super) at: Option<SystemTime>,
    pub(super) dedup_key: Option<String>,
    pub(super) on_duplicate: OnDuplicate,
    pub(super) partition_key: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) after: Vec<Prerequisite>,
}

impl Options {
    /// True if nothing but an id and a queue were told: such a workflow may begin here in the commit that records it.
    pub(super) fn is_plain(&self) -> bool {
        let Self { id: _, queue: _, priority, delay, at, dedup_key, on_duplicate: _, partition_key, tags, after } =
            self;
        *priority == 0
            && delay.is_none()
            && at.is_none()
            && dedup_key.is_none()
            && partition_key.is_none()
            && tags.is_empty()
            && after.is_empty()
    }

    pub(super) fn run_after(&mut self, run: &(impl RunId + ?Sized), any_end: bool) {
        self.after.push(Prerequisite { workflow_id: run.run_id().into(), any_end });
    }

    /// The row of a workflow with these options.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidId`] and [`ErrorKind::InvalidOption`], before anything is written.
    pub(super) fn row(
        self,
        name: &str,
        version: i32,
        queue: &str,
        input: Payload,
    ) -> Result<(EnqueueRow, OnDuplicate), Error> {
        let invalid = |why: String| Err(Error::new(ErrorKind::InvalidOption, why));
        let id = self.id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        check_workflow_id(&id)?;
        let queue = self.queue.as_deref().unwrap_or(queue);
        check_key("queue", queue)?;
        for (what, key) in [("dedup key", &self.dedup_key), ("partition key", &self.partition_key)] {
            if let Some(key) = key {
                check_key(what, key)?;
            }
        }
        for tag in &self.tags {
            check_key("tag", tag)?;
        }
        if self.tags.len() > MAX_TAGS {
            return invalid(format!("workflow `{id}` has {} tags, the limit is {MAX_TAGS}", self.tags.len()));
        }
        for prerequisite in &self.after {
            check_workflow_id(&prerequisite.workflow_id)?;
            if *prerequisite.workflow_id == *id {
                return invalid(format!("workflow `{id}` can't run after itself"));
            }
        }
        Ok((
            EnqueueRow {
                workflow_id: id.into(),
                name: name.into(),
                version,
                queue: queue.into(),
                priority: self.priority,
                due: due(self.delay, self.at)?,
                dedup_key: self.dedup_key,
                partition_key: self.partition_key,
                tags: self.tags,
                input,
                seed: fastrand::i64(..),
                write_id: fastrand::i64(..),
                after: self.after,
            },
            self.on_duplicate,
        ))
    }
}

fn due(delay: Option<Duration>, at: Option<SystemTime>) -> Result<Due, Error> {
    let invalid = |why: String| Err(Error::new(ErrorKind::InvalidOption, why));
    match (delay, at) {
        (Some(_), Some(_)) => invalid("`delay` and `at` exclude each other: give one of them".to_owned()),
        (Some(delay), None) if delay > MAX_DELAY => {
            invalid(format!("a delay of {} seconds is too long: the most is 1,000 years", delay.as_secs()))
        }
        (Some(delay), None) if delay.is_zero() => Ok(Due::Now),
        (Some(delay), None) => Ok(Due::In(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX))),
        (None, Some(at)) => match at.duration_since(UNIX_EPOCH) {
            Ok(since) if since > MAX_TIME => invalid("the time of `at` is behind the year 9999".to_owned()),
            Ok(since) => Ok(Due::At(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))),
            // Long past.
            Err(_) => Ok(Due::Now),
        },
        (None, None) => Ok(Due::Now),
    }
}

/// Refuses prerequisites that go in a circle. Only rows of one call can: a recorded one never gets another prerequisite.
///
/// # Errors
/// [`ErrorKind::InvalidOption`], with the circle.
pub(super) fn refuse_cycles(rows: &[EnqueueRow]) -> Result<(), Error> {
    use std::collections::HashMap;
    let places: HashMap<&str, usize> = rows.iter().enumerate().map(|(n, row)| (&*row.workflow_id, n)).collect();
    // Rows are left once all that they wait for among themselves are: what is never left is on a circle or behind one.
    let inner = |row: &EnqueueRow| -> Vec<usize> {
        row.after.iter().filter_map(|link| places.get(&*link.workflow_id).copied()).collect()
    };
    let mut open: Vec<usize> = rows.iter().map(|row| inner(row).len()).collect();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
    for (n, row) in rows.iter().enumerate() {
        for prerequisite in inner(row) {
            behind[prerequisite].push(n);
        }
    }
    let mut free: Vec<usize> = (0..rows.len()).filter(|n| open[*n] == 0).collect();
    while let Some(n) = free.pop() {
        for next in std::mem::take(&mut behind[n]) {
            open[next] -= 1;
            if open[next] == 0 {
                free.push(next);
            }
        }
    }
    let Some(first) = open.iter().position(|open| *open > 0) else { return Ok(()) };
    // From any of them, each step to an open prerequisite stays among them, and so comes round.
    let (mut seen, mut at) = (Vec::new(), first);
    while !seen.contains(&at) {
        seen.push(at);
        match inner(&rows[at]).into_iter().find(|n| open[*n] > 0) {
            Some(next) => at = next,
            None => break,
        }
    }
    let circle = seen.iter().skip_while(|n| **n != at).chain([&at]).take(20);
    let circle: Vec<String> = circle.map(|n| format!("`{}`", rows[*n].workflow_id)).collect();
    Err(Error::new(
        ErrorKind::InvalidOption,
        format!("runs wait for each other in a circle: {}", circle.join(" after ")),
    ))
}

/// The setters of a start, written once for those that know their workflow and those that know its name.
macro_rules! setters {
    () => {
        /// The workflow's id: the same id twice is the same run. Without one it gets a fresh UUID.
        ///
        /// # Errors
        /// Awaiting fails with [`ErrorKind::InvalidId`](crate::ErrorKind::InvalidId) if it is empty, blank, longer than
        /// 512 bytes or has control characters, and with [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists)
        /// if it belongs to a run of another workflow or input.
        pub fn id(mut self, id: impl Into<String>) -> Self {
            self.options.id = Some(id.into());
            self
        }

        /// The queue, instead of the workflow's own. Work in a queue runs where an executor claims it, within the queue's
        /// limits. Without any it is in `default`.
        ///
        /// # Errors
        /// Awaiting fails with [`ErrorKind::UnknownQueue`](crate::ErrorKind::UnknownQueue) if nobody has named the queue.
        pub fn queue(mut self, queue: impl Into<String>) -> Self {
            self.options.queue = Some(queue.into());
            self
        }

        /// The priority within the queue: lower runs first. Default 0. Of one priority, what is due earlier runs first,
        /// then what was submitted earlier.
        pub fn priority(mut self, priority: i32) -> Self {
            self.options.priority = priority;
            self
        }

        /// Runs no earlier than so long after it is recorded, by the database's clock. Up to 1,000 years.
        pub fn delay(mut self, delay: std::time::Duration) -> Self {
            self.options.delay = Some(delay);
            self
        }

        /// Runs no earlier than at this time, by the database's clock. What is past runs now. Up to the year 9999.
        pub fn at(mut self, time: std::time::SystemTime) -> Self {
            self.options.at = Some(time);
            self
        }

        /// A key that one unfinished run of this workflow has at most. While it is taken, a start with it gives a handle on
        /// the run that has it, or fails: see [`on_duplicate`](Self::on_duplicate). Free again when that run has ended.
        pub fn dedup_key(mut self, key: impl Into<String>) -> Self {
            self.options.dedup_key = Some(key.into());
            self
        }

        /// What happens while the dedup key is taken. Default: a handle on the run that has it.
        pub fn on_duplicate(mut self, on_duplicate: crate::OnDuplicate) -> Self {
            self.options.on_duplicate = on_duplicate;
            self
        }

        /// What the queue's limits per partition count by: a customer, a file, an account.
        pub fn partition_key(mut self, key: impl Into<String>) -> Self {
            self.options.partition_key = Some(key.into());
            self
        }

        /// Words to find it by, in the column `tags`. Up to 100, of 512 bytes each.
        pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
            self.options.tags.extend(tags.into_iter().map(Into::into));
            self
        }

        /// Waits until all of these runs are done. If one ends otherwise it is cancelled, with the reason. For runs in a
        /// list see [`after_all`](Self::after_all).
        ///
        /// # Errors
        /// Awaiting fails with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if one of them does not exist.
        pub fn after<const N: usize>(mut self, runs: [&dyn crate::RunId; N]) -> Self {
            runs.into_iter().for_each(|run| self.options.run_after(run, false));
            self
        }

        /// Waits until all of these runs have ended, whichever way.
        ///
        /// # Errors
        /// As [`after`](Self::after).
        pub fn after_ended<const N: usize>(mut self, runs: [&dyn crate::RunId; N]) -> Self {
            runs.into_iter().for_each(|run| self.options.run_after(run, true));
            self
        }

        /// [`after`](Self::after), for any number of handles or ids.
        pub fn after_all<R: crate::RunId>(mut self, runs: impl IntoIterator<Item = R>) -> Self {
            runs.into_iter().for_each(|run| self.options.run_after(&run, false));
            self
        }

        /// [`after_ended`](Self::after_ended), for any number of handles or ids.
        pub fn after_all_ended<R: crate::RunId>(mut self, runs: impl IntoIterator<Item = R>) -> Self {
            runs.into_iter().for_each(|run| self.options.run_after(&run, true));
            self
        }
    };
}

pub(super) use setters;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Codec, Data};

    fn row(id: &str, after: &[&str]) -> EnqueueRow {
        let mut options = Options { id: Some(id.to_owned()), ..Options::default() };
        after.iter().for_each(|run| options.run_after(*run, false));
        let input = Payload { codec: Codec::Json.id(), data: Data::Text("{}".to_owned()) };
        options.row("w", 1, "default", input).unwrap().0
    }

    #[test]
    fn a_circle_is_found_and_shown() {
        let rows = [row("a", &["b"]), row("b", &["c", "x"]), row("c", &["a"]), row("d", &["a"])];
        let error = refuse_cycles(&rows).unwrap_err();
        assert_eq!(error.to_string(), "runs wait for each other in a circle: `a` after `b` after `c` after `a`");
        assert!(refuse_cycles(&[row("d", &["a"]), row("a", &["old"]), row("b", &["a", "d"])]).is_ok());
    }

    #[test]
    fn a_due_time_that_no_database_can_tell_is_refused() {
        for (delay, at) in [
            (Some(Duration::MAX), None),
            (None, Some(UNIX_EPOCH + Duration::from_secs(300_000_000_000))),
            (Some(Duration::ZERO), Some(UNIX_EPOCH)),
        ] {
            assert_eq!(due(delay, at).unwrap_err().kind(), ErrorKind::InvalidOption);
        }
        assert_eq!(due(Some(Duration::from_millis(2)), None).unwrap(), Due::In(2_000));
        assert_eq!(due(None, Some(UNIX_EPOCH - Duration::from_secs(9))).unwrap(), Due::Now);
    }
}

//! Identities: workflow ids as users give them, and positions of durable calls inside a workflow.
//!
//! Guarantees that an id that passed here is storable and printable. Layer: below the model.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// The longest workflow id, in bytes of UTF-8. Every key starts with it, so it bounds the index rows.
pub(crate) const MAX_ID_BYTES: usize = 512;

/// The longest path of a branch that may open others, in bytes: with the id it must fit into a row of an index.
pub(crate) const MAX_BRANCH_BYTES: usize = 1_024;

/// Checks a workflow id given by a caller.
///
/// # Errors
/// [`ErrorKind::InvalidId`] if it is empty or blank, longer than [`MAX_ID_BYTES`], or has control characters.
pub(crate) fn check_workflow_id(id: &str) -> Result<(), Error> {
    let problem = if id.is_empty() {
        "is empty".to_owned()
    } else if id.trim().is_empty() {
        "is blank".to_owned()
    } else if id.len() > MAX_ID_BYTES {
        format!("has {} bytes, the limit is {MAX_ID_BYTES}", id.len())
    } else if let Some((at, c)) = id.char_indices().find(|(_, c)| c.is_control()) {
        format!("has the control character {c:?} at byte {at}")
    } else {
        return Ok(());
    };
    let shown: String = id.chars().take(40).flat_map(char::escape_default).collect();
    Err(Error::new(
        ErrorKind::InvalidId,
        format!("workflow id `{shown}` {problem}; use 1 to {MAX_ID_BYTES} bytes of printable text"),
    ))
}

/// Checks a name or key that is stored and compared: queue, dedup key, partition key, tag.
///
/// # Errors
/// [`ErrorKind::InvalidOption`] as for ids.
pub(crate) fn check_key(what: &str, key: &str) -> Result<(), Error> {
    check_workflow_id(key)
        .map_err(|error| Error::new(ErrorKind::InvalidOption, error.to_string().replacen("workflow id", what, 1)))
}

/// Where a durable call stands in its workflow: branch and index. With the workflow id it is the primary key of
/// its checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StepKey {
    /// `''` for the body, `k.n` for arm `n` of the concurrent call with index `k`, and so on inward.
    pub(crate) branch: Arc<str>,
    /// Counts from 0 within the branch.
    pub(crate) index: i32,
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.branch.is_empty() {
            write!(f, "step {}", self.index)
        } else {
            write!(f, "step {} of branch {}", self.index, self.branch)
        }
    }
}

/// The branch of arm `arm` of the concurrent call at `key`.
pub(crate) fn child_branch(key: &StepKey, arm: usize) -> Arc<str> {
    if key.branch.is_empty() {
        format!("{}.{arm}", key.index).into()
    } else {
        format!("{}.{}.{arm}", key.branch, key.index).into()
    }
}

/// True if the call at `later` comes after the one at `earlier` on every path: the same up to some index, and a
/// higher index there. Calls in different arms of one concurrent call have no order.
pub(crate) fn follows(later: (&str, i32), earlier: (&str, i32)) -> bool {
    let mut later = path(later);
    let mut earlier = path(earlier);
    loop {
        // Positions alternate: an index, then the arm taken at it.
        match (later.next(), earlier.next()) {
            (Some(l), Some(e)) if l != e => return l > e,
            (Some(_), Some(_)) => {}
            _ => return false,
        }
        match (later.next(), earlier.next()) {
            (Some(l), Some(e)) if l == e => {}
            _ => return false,
        }
    }
}

fn path<'a>((branch, index): (&'a str, i32)) -> impl Iterator<Item = i32> + 'a {
    branch.split('.').filter_map(|part| part.parse().ok()).chain(std::iter::once(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_printable_text_of_bounded_length() {
        for good in ["a", "doc-42", "이메일 9", &"x".repeat(MAX_ID_BYTES)] {
            assert!(check_workflow_id(good).is_ok(), "{good}");
        }
        for bad in ["", "  ", "a\u{0}b", "line\nbreak", &"x".repeat(MAX_ID_BYTES + 1), &"x".repeat(10_000)] {
            let error = check_workflow_id(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidId);
            assert!(error.to_string().len() < 300, "{error}");
        }
    }

    #[test]
    fn order_of_calls_goes_by_index_and_not_by_arm() {
        assert!(follows(("", 3), ("", 2)));
        assert!(!follows(("", 2), ("", 2)));
        assert!(!follows(("", 1), ("", 2)));
        assert!(follows(("3.0", 0), ("", 2)), "an arm of a later call follows");
        assert!(follows(("", 4), ("3.0", 7)), "the enclosing branch went on");
        assert!(!follows(("3.1", 9), ("3.0", 7)), "sibling arms have no order");
        assert!(follows(("3.0", 8), ("3.0", 7)));
        assert!(follows(("3.0.8.1", 0), ("3.0", 7)));
        assert!(!follows(("3.0", 7), ("", 3)));
        assert!(!follows(("10.0", 0), ("", 10)));
        assert!(follows(("10.0", 0), ("", 9)), "indexes compare as numbers");
    }
}

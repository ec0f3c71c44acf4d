//! Large operations step aside, so that one workflow's payloads don't hold up the others.
//!
//! Guarantees that the operations of one workflow keep their order: what comes after a large one waits behind it.
//! A small operation waits for at most one turn of large ones. Layer: writer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Pending;

/// From this size on an operation steps aside; so many bytes of them, or one, go in a turn.
const LARGE: usize = 256 << 10;

/// Large operations, and what came after them of the same workflows.
#[derive(Default)]
pub(super) struct Backlog {
    held: VecDeque<Pending>,
    /// How many are held of each workflow.
    of: HashMap<Arc<str>, usize>,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes out of `taken` what has to wait.
    pub(super) fn set_aside(&mut self, taken: &mut Vec<Pending>) {
        // Nothing else waits that a large one could hold up.
        if taken.len() == 1 && self.is_empty() {
            return;
        }
        let held = taken.extract_if(.., |pending| {
            let id = pending.op.workflow_id();
            let waits = pending.op.weight() >= LARGE || self.of.contains_key(id);
            if waits {
                *self.of.entry(Arc::clone(id)).or_default() += 1;
            }
            waits
        });
        self.held.extend(held);
    }

    /// The next turn of what was set aside.
    pub(super) fn turn(&mut self) -> Vec<Pending> {
        let (mut turn, mut bytes) = (Vec::new(), 0);
        while bytes < LARGE
            && let Some(pending) = self.held.pop_front()
        {
            bytes += pending.op.weight();
            let id = pending.op.workflow_id();
            if let Some(left) = self.of.get_mut(id) {
                *left -= 1;
                if *left == 0 {
                    self.of.remove(id);
                }
            }
            turn.push(pending);
        }
        turn
    }
}

//! Places in the source, as the rows show them. Layer: workflow.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

thread_local! {
    /// By the address of the file's name: the places of a program are few, and their texts are written with each row.
    static TEXTS: RefCell<HashMap<(usize, u32, u32), Arc<str>>> = RefCell::default();
}

/// `file:line:column`.
pub(super) fn text(file: &'static str, line: u32, column: u32) -> Arc<str> {
    TEXTS.with_borrow_mut(|texts| {
        let text = texts.entry((file.as_ptr() as usize, line, column));
        Arc::clone(text.or_insert_with(|| format!("{file}:{line}:{column}").into()))
    })
}

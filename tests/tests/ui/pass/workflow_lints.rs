#![deny(warnings, missing_docs, unused, nonstandard_style, non_local_definitions)]
#![forbid(unsafe_code)]
//! No finding comes from the expansion.

use durable::workflow;

/// Documented.
#[workflow]
pub async fn public(doc: String) -> usize {
    doc.len()
}

// Never called: others may start it, so it is no dead code.
#[workflow]
async fn registered_only(doc: String) -> usize {
    doc.len()
}

#[workflow] async fn one_line() -> u32 { 1 }

/// Documented.
#[workflow]
#[cfg(any())]
pub async fn compiled_out(doc: Undefined) {}

/// Documented.
#[workflow]
#[doc(hidden)]
#[allow(unused_variables)]
pub async fn hidden(unused: u32, #[cfg(any())] absent: u32) {}

/// Documented.
#[workflow]
#[expect(unused_variables, reason = "it is unused")]
pub async fn expected(unused: u32) {}

fn main() {
    let _start = expected::start(1);
    let _starts = (public::start(String::new()), hidden::start(1));
}

#![deny(warnings, missing_docs)]
//! Attributes stay where they were written.

use durable::step;

/// Documented.
#[step]
#[allow(unused_variables, reason = "the attribute is for the body")]
pub async fn allowed(unused: u32) {
    let also_unused = 3;
}

/// Documented.
#[step]
#[cfg(any())]
pub async fn compiled_out() -> Undefined {}

/// Documented.
#[step]
pub async fn parameters(#[allow(unused_variables)] unused: u32, #[cfg(any())] absent: u32, #[cfg(all())] cents: u32) -> u32 {
    cents
}

/// Documented.
#[step]
#[must_use]
#[inline]
pub async fn kept() -> u32 {
    #![allow(unused_variables)]
    let unused = 3;
    1
}

/// Documented.
#[step]
#[expect(unused_variables, reason = "it is unused")]
pub async fn expected(unused: u32) {}

fn main() {
    let _futures = (allowed(1), parameters(1, 2), kept(), expected(1));
}

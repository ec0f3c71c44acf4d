//! The errors of the library: one opaque [`Error`] with a kind, and [`Failure`], a recorded failure in words.
//!
//! Guarantees that `Display` says what, where and what to do, and never repeats `source()`. Layer: below everything.

mod failure;
mod public;

pub use failure::{Failure, FailureKind};
pub use public::{Error, ErrorKind};

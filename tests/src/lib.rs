//! Fixtures that the promises are tested with.

//! What the library sees of a user's error: its words, its chain, and whether retrying can cure it.
//!
//! Guarantees a view of every error, from the richest source its type offers: an error chain, `Display`, `Debug`, or
//! the name of the type. A `Failure` anywhere in the chain that is permanent makes the view permanent. Does not see a
//! `Failure` that is only the *context* of an `anyhow` or `eyre` report: those keep its type to themselves.
//! Layer: below the stores.

use std::error::Error as StdError;
use std::fmt::{Debug, Display};

use super::pick::Pick;
use crate::error::Failure;

/// An error as it is recorded in words.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct ErrorView {
    /// Its message and sources; permanent if it, or anything in its chain, is.
    pub failure: Failure,
}

/// How to look at the error of an `R`.
#[doc(hidden)]
pub trait View<R> {
    /// The view of an `Err`; `None` for `Ok` and for what is no `Result`.
    fn view(outcome: &R) -> Option<ErrorView>;
}

/// Declares one level of the choice: what it picks, and a trait for the number of references to [`Pick`] it is at.
macro_rules! level {
    ($doc:literal, $level:ident for $refs:ty, $picked:ident, [$($bound:tt)*], |$error:ident| $failure:expr) => {
        #[doc = $doc]
        #[doc(hidden)]
        #[derive(Debug)]
        pub struct $picked;

        impl<T, E: $($bound)*> View<Result<T, E>> for $picked {
            fn view(outcome: &Result<T, E>) -> Option<ErrorView> {
                outcome.as_ref().err().map(|$error| ErrorView { failure: $failure })
            }
        }

        #[doc = $doc]
        #[doc(hidden)]
        pub trait $level {
            /// The pick.
            fn __durable_view(&self) -> $picked {
                $picked
            }
        }

        impl<T, E: $($bound)*, C> $level for $refs {}
    };
}

level!(
    "`anyhow::Error`, `eyre::Report`, `Box<dyn Error + Send + Sync>`: no errors themselves, but they lend one.",
    ViewByReport for &&&&&Pick<Result<T, E>, C>, Report,
    [AsRef<dyn StdError + Send + Sync + 'static>], |error| Failure::from_error(error.as_ref())
);
level!(
    "An error with its sources.",
    ViewByChain for &&&&Pick<Result<T, E>, C>, Chain,
    [StdError + 'static], |error| Failure::from_error(error)
);
level!(
    "What shows itself; `{:#}`, because reports give their whole chain there.",
    ViewByDisplay for &&&Pick<Result<T, E>, C>, Shown,
    [Display], |error| Failure::new(format!("{error:#}"))
);
level!(
    "What has a debug form.",
    ViewByDebug for &&Pick<Result<T, E>, C>, Debugged,
    [Debug], |error| Failure::new(format!("{error:?}"))
);
level!(
    "An error that says nothing of itself but the name of its type.",
    ViewByName for &Pick<Result<T, E>, C>, Named,
    [], |_error| Failure::new(std::any::type_name::<E>())
);

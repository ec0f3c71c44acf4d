//! `Errors`: every error of one item, reported together.
//!
//! Guarantees that an item that is refused is emitted again as it was written, so that editors keep completing in
//! it and the compiler does not report its name as missing. Does not decide what is an error.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Error, Result};

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    /// Adds a refusal at the tokens it is about.
    pub(crate) fn refuse(&mut self, at: impl ToTokens, sentence: impl std::fmt::Display) {
        self.add(Error::new_spanned(at, sentence));
    }

    /// Adds an error.
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// The value, or nothing and the error is kept.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// The errors so far and a last one, after which there is nothing left to look at.
    pub(crate) fn and(self, last: Error) -> Error {
        match self.0 {
            Some(mut all) => {
                all.combine(last);
                all
            }
            None => last,
        }
    }

    /// The value, unless there were errors.
    pub(crate) fn or<T>(self, value: T) -> Result<T> {
        match self.0 {
            Some(error) => Err(error),
            None => Ok(value),
        }
    }
}

/// The expansion, or all errors and the item as the user wrote it.
pub(crate) fn emit(expansion: Result<TokenStream>, item: TokenStream) -> TokenStream {
    expansion.unwrap_or_else(|error| {
        let mut tokens = error.into_compile_error();
        tokens.extend(item);
        tokens
    })
}

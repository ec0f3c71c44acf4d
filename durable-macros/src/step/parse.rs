//! What the user wrote on a step.

use std::time::Duration;

use proc_macro2::TokenStream;
use syn::{Error, Result};

use crate::attribute::{Arguments, Entry};
use crate::duration;
use crate::errors::Errors;
use crate::function::Function;
use crate::library::{Codec, Library};
use crate::retry::Retry;

const KNOWN: &[&str] = &["name", "retry", "timeout", "codec", "crate"];

/// A step as parsed.
pub(crate) struct Parsed {
    pub(crate) function: Function,
    pub(crate) options: Options,
    /// What was wrong with the attribute; the function is looked at all the same.
    pub(crate) errors: Errors,
}

/// The attribute's arguments.
#[derive(Default)]
pub(crate) struct Options {
    /// `name = ".."`.
    pub(crate) name: Option<String>,
    /// `retry` or `retry(..)`.
    pub(crate) retry: Option<Retry>,
    /// `timeout = ".."`.
    pub(crate) timeout: Option<Duration>,
    /// `codec = ".."`.
    pub(crate) codec: Codec,
    /// `crate = ".."`.
    pub(crate) library: Library,
}

/// Reads attribute and function.
pub(crate) fn parse(attribute: TokenStream, item: TokenStream) -> Result<Parsed> {
    let mut errors = Errors::default();
    let arguments = errors.keep(syn::parse2::<Arguments>(attribute)).unwrap_or_default();
    let mut options = Options::default();
    for entry in arguments.distinct(&mut errors) {
        if let Err(error) = options.set(entry, &mut errors) {
            errors.add(error);
        }
    }
    match Function::of(item, "step") {
        Ok(function) => Ok(Parsed { function, options, errors }),
        Err(error) => Err(errors.and(error)),
    }
}

impl Options {
    fn set(&mut self, entry: Entry, errors: &mut Errors) -> Result<()> {
        match entry.key.to_string().as_str() {
            "name" => self.name = Some(entry.name()?),
            "retry" => self.retry = Some(Retry::parse(entry, errors)?),
            "timeout" => self.timeout = Some(timeout(&entry)?),
            "codec" => self.codec = Codec::parse(&entry)?,
            "crate" => self.library = Library::parse(&entry)?,
            "transaction" => return Err(entry.not_yet()),
            _ => return Err(entry.unknown("`#[step]`", KNOWN)),
        }
        Ok(())
    }
}

fn timeout(entry: &Entry) -> Result<Duration> {
    let literal = entry.text()?;
    let timeout = duration::parse(&literal)?;
    if timeout.is_zero() {
        return Err(Error::new(literal.span(), "a `timeout` of zero fails each attempt: leave it out for none"));
    }
    Ok(timeout)
}

//! What the user wrote on a workflow.

use proc_macro2::TokenStream;
use syn::{Ident, Result};

use crate::attribute::{Arguments, Entry};
use crate::errors::Errors;
use crate::function::Function;
use crate::library::{Codec, Library};
use crate::retry::Retry;

const KNOWN: &[&str] = &["name", "version", "type", "queue", "retry", "codec", "crate"];

/// A workflow as parsed.
pub(crate) struct Parsed {
    pub(crate) function: Function,
    pub(crate) options: Options,
    /// What was wrong with the attribute; the function is looked at all the same.
    pub(crate) errors: Errors,
}

/// The attribute's arguments.
pub(crate) struct Options {
    /// `name = ".."`.
    pub(crate) name: Option<String>,
    /// `version = 2`.
    pub(crate) version: u32,
    /// `type = Digest`.
    pub(crate) ty: Option<Ident>,
    /// `queue = ".."`.
    pub(crate) queue: Option<String>,
    /// `retry` or `retry(..)`.
    pub(crate) retry: Option<Retry>,
    /// `codec = ".."`.
    pub(crate) codec: Codec,
    /// `crate = ".."`.
    pub(crate) library: Library,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            version: 1,
            ty: None,
            queue: None,
            retry: None,
            codec: Codec::default(),
            library: Library::default(),
        }
    }
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
    match Function::of(item, "workflow") {
        Ok(function) => Ok(Parsed { function, options, errors }),
        Err(error) => Err(errors.and(error)),
    }
}

impl Options {
    fn set(&mut self, entry: Entry, errors: &mut Errors) -> Result<()> {
        match entry.key.to_string().as_str() {
            "name" => self.name = Some(entry.name()?),
            "version" => self.version = entry.whole()?,
            "type" => self.ty = Some(entry.ident()?),
            "codec" => self.codec = Codec::parse(&entry)?,
            "crate" => self.library = Library::parse(&entry)?,
            "queue" => self.queue = Some(queue(&entry)?),
            "retry" => self.retry = Some(Retry::parse_of_workflow(entry, errors)?),
            "schedule" | "timezone" => return Err(entry.not_yet()),
            _ => return Err(entry.unknown("`#[workflow]`", KNOWN)),
        }
        Ok(())
    }
}

/// The name of a queue is checked as the library checks it, but here and now.
fn queue(entry: &Entry) -> Result<String> {
    let name = entry.name()?;
    if name.len() > 512 || name.chars().any(char::is_control) {
        return Err(syn::Error::new(entry.value_span(), "the name of a queue is 1 to 512 bytes of printable text"));
    }
    Ok(name)
}

//! `#[workflow]`: parse, lower (refusals only), expand.
//!
//! A workflow is found again by name and version in another process, so besides the function there comes out a type
//! that says how to run it, and an entry in the program's registry.

mod expand;
mod lower;
mod parse;

use proc_macro2::TokenStream;
use syn::Result;

/// The workflow that `item` becomes.
pub(crate) fn workflow(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let parsed = parse::parse(attribute, item)?;
    let workflow = lower::lower(parsed)?;
    Ok(expand::expand(&workflow))
}

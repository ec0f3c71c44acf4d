//! `#[step]`: parse, lower (refusals only), expand.
//!
//! The key of a step is claimed at its call, so the function that comes out is a plain `fn` that hashes its
//! arguments and calls the library; the body waits in the future it returns.

mod expand;
mod lower;
mod parse;

use proc_macro2::TokenStream;
use syn::Result;

/// The step that `item` becomes.
pub(crate) fn step(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let parsed = parse::parse(attribute, item)?;
    let step = lower::lower(parsed)?;
    Ok(expand::expand(&step))
}

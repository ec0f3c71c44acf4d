//! The attributes of `durable`.

mod attribute;
mod duration;
mod errors;
mod function;
mod library;
mod refuse;
mod step;
mod workflow;

use proc_macro::TokenStream;

/// Makes an async function a step.
#[proc_macro_attribute]
pub fn step(attribute: TokenStream, item: TokenStream) -> TokenStream {
    errors::emit(step::step(attribute.into(), item.clone().into()), item.into()).into()
}

/// Makes an async function a workflow.
#[proc_macro_attribute]
pub fn workflow(attribute: TokenStream, item: TokenStream) -> TokenStream {
    errors::emit(workflow::workflow(attribute.into(), item.clone().into()), item.into()).into()
}

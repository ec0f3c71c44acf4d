//! The code of a step: the user's body and one call into the library.
//!
//! Written by hand it is this, where the codec is chosen by the return type:
//!
//! ```text
//! #[track_caller]
//! fn summarize(doc: &str) -> durable::StepFuture<impl Future<Output = R> + Send> {
//!     let mut once = Some(async move { let doc = doc; /* the body */ });
//!     step(StepDef { .. }, hash_args(&[..]), move || once.take())
//! }
//! ```

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Meta, ReceiverKind, Type};

use super::lower::Step;
use crate::duration;
use crate::function::{self, Function};
use crate::retry::Retry;

/// The step's tokens.
pub(crate) fn expand(step: &Step) -> TokenStream {
    let Step { function, arguments, output, options } = step;
    let Function { vis, sig, body, .. } = function;
    let library = &options.library;
    let (fn_token, name) = (&sig.fn_token, &sig.ident);
    let (generics, bounds) = (&sig.generics, &sig.generics.where_clause);
    let receiver = function.receiver().into_iter().map(ToTokens::to_token_stream);
    let inputs = receiver.chain(arguments.iter().map(|argument| argument.declare()));
    let attrs = function.attrs.iter().filter(|attr| !is_bare_must_use(attr));
    let track_caller =
        (!function.attrs.iter().any(|attr| attr.path().is_ident("track_caller"))).then(|| quote!(#[track_caller]));
    // `impl` carries this crate's edition, so that every lifetime is captured in the user's edition 2021 as well.
    let head = quote! {
        #(#attrs)*
        #track_caller
        #vis #fn_token #name #generics (#(#inputs),*)
            -> #library::StepFuture<impl ::core::future::Future<Output = #output> + ::core::marker::Send>
        #bounds
    };
    let Some(body) = body else {
        return quote!(#head;);
    };
    let definition = definition(step);
    let hash = hash(step);
    let attempts = attempts(step, body);
    quote! {
        #head {
            #library::__private::step(#definition, #hash, #attempts)
        }
    }
}

/// Name, codec and policy.
fn definition(step: &Step) -> TokenStream {
    let Step { function, output, options, .. } = step;
    let library = &options.library;
    let name = options.name.clone().unwrap_or_else(|| function.name());
    let codec = library.outcome_codec(output, options.codec);
    let (retry, when) = match &options.retry {
        Some(retry) => policy(retry, output, library),
        None => (quote!(#library::__private::RetryPolicy::NONE), quote!(::core::option::Option::None)),
    };
    let timeout = match options.timeout.map(duration::expr) {
        Some(timeout) => quote!(::core::option::Option::Some(#timeout)),
        None => quote!(::core::option::Option::None),
    };
    // At the function's name, not at the attribute.
    let (file, line, column) = {
        let at = function.sig.ident.span();
        (
            quote_spanned!(at=> ::core::file!()),
            quote_spanned!(at=> ::core::line!()),
            quote_spanned!(at=> ::core::column!()),
        )
    };
    quote! {
        #library::__private::StepDef::<#output> {
            meta: #library::__private::StepMeta { name: #name, file: #file, line: #line, column: #column },
            codec: #codec,
            retry: #retry,
            when: #when,
            timeout: #timeout,
        }
    }
}

fn policy(retry: &Retry, output: &Type, library: &impl ToTokens) -> (TokenStream, TokenStream) {
    let when = retry.when.as_ref().map_or_else(
        || quote!(::core::option::Option::None),
        |path| {
            // Where the path stands: a function of another error type is reported there.
            let at = path.span().resolved_at(Span::call_site());
            // The path may be one word: no name here may be the same.
            let local = |name| Ident::new(name, at.resolved_at(Span::mixed_site()));
            let (outcome, error) = (local("outcome"), local("error"));
            quote_spanned! {at=>
                ::core::option::Option::Some(|#outcome: &#output| match #outcome {
                    ::core::result::Result::Ok(_) => true,
                    ::core::result::Result::Err(#error) => #path(#error),
                })
            }
        },
    );
    (retry.expr(library), when)
}

/// The hash of the arguments, taken before they move into the body.
fn hash(step: &Step) -> TokenStream {
    let library = &step.options.library;
    let values = step.arguments.iter().map(|argument| {
        let (cfgs, ident) = (&argument.cfgs, argument.ident());
        if cfgs.is_empty() {
            return quote!(#ident);
        }
        // An expression cannot be left out, so what is compiled out counts as `()`.
        let value = Ident::new("value", Span::mixed_site());
        quote!({ let #value = (); #(#cfgs)* let #value = &#ident; #value })
    });
    quote!(#library::__args_hash!(#(#values),*))
}

/// What the library asks for a future, once per attempt.
fn attempts(step: &Step, body: &TokenStream) -> TokenStream {
    let Step { function, arguments, output, options } = step;
    let bindings = arguments.iter().map(|argument| argument.bind());
    // A plain async fn keeps `self` until it ends, used or not.
    let keep = function.receiver().and_then(|receiver| match receiver.kind {
        ReceiverKind::Reference(..) => None,
        _ => Some(receiver.self_token),
    });
    let keep = keep.map(|token| quote!(let _ = &#token;));
    let typed = function::typed(output);
    let future = quote!(async move { #typed #keep #(#bindings)* #body });
    if options.retry.is_none() {
        let once = Ident::new("once", Span::mixed_site());
        return quote!({ let mut #once = ::core::option::Option::Some(#future); move || #once.take() });
    }
    let clones = arguments.iter().filter(|argument| !argument.is_shared_reference()).map(|argument| {
        let (cfgs, ident) = (&argument.cfgs, argument.ident());
        // Where the argument stands: a missing `Clone` is reported there.
        let at = ident.span().resolved_at(Span::call_site());
        quote_spanned!(at=> #(#cfgs)* let #ident = ::core::clone::Clone::clone(&#ident);)
    });
    quote!(move || { #(#clones)* ::core::option::Option::Some(#future) })
}

/// `StepFuture` says so already, and clippy minds it said twice.
fn is_bare_must_use(attr: &Attribute) -> bool {
    matches!(&attr.meta, Meta::Path(path) if path.is_ident("must_use"))
}

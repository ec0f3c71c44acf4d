//! The code of a workflow: a function, a type of the same name, and its entry in the registry.
//!
//! Written by hand it is this, where only the body is more than a call:
//!
//! ```text
//! fn digest(doc: String) -> impl Future<Output = R> + Send { call::<digest>(Input { doc }) }
//! #[non_exhaustive] struct digest {}
//! impl digest { fn start(doc: String) -> durable::Start<digest> { Start::new(Input { doc }) } }
//! impl durable::Workflow for digest { /* name, version, input, the body, codecs */ }
//! inventory::submit! { WorkflowEntry::new::<digest>(file!(), line!()) }
//! ```

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use super::lower::Workflow;
use crate::function;
use crate::library::Codec;

/// The workflow's tokens.
pub(crate) fn expand(workflow: &Workflow) -> TokenStream {
    let function = plain_call(workflow);
    let ty = named_type(workflow);
    let entry = entry(workflow);
    let input = input_type(workflow);
    let implementation = implementation(workflow);
    let cfgs = workflow.function.cfgs();
    quote! {
        #function
        #ty
        #(#cfgs)*
        const _: () = {
            #input
            #implementation
            #entry
        };
    }
}

/// `digest(doc)`: runs the workflow and waits for it.
fn plain_call(workflow: &Workflow) -> TokenStream {
    let Workflow { function, arguments, output, options } = workflow;
    let (vis, library) = (&function.vis, &options.library);
    let attrs = function.attrs.iter().map(function::permissive);
    let (name, ty) = (&function.sig.ident, type_name(workflow));
    let parameters = arguments.iter().map(|argument| argument.declare());
    let values = arguments.iter().map(|argument| argument.field());
    quote! {
        #(#attrs)*
        #[track_caller]
        #vis fn #name(#(#parameters),*)
            -> impl ::core::future::Future<Output = #output> + ::core::marker::Send + 'static
        {
            #library::__private::call::<#ty>(#ty::__durable_input(#(#values),*))
        }
    }
}

/// `digest` as a type. With braces it is no value, so that the function has that name to itself.
fn named_type(workflow: &Workflow) -> TokenStream {
    let Workflow { function, .. } = workflow;
    let (cfgs, vis, ty) = (function.cfgs(), &function.vis, type_name(workflow));
    let hidden = function
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("doc") && attr.parse_args::<Ident>().is_ok_and(|word| word == "hidden"));
    let doc = format!("The workflow `{}` as a type: `{ty}::start(..)` starts it.", function.name());
    quote! {
        #(#cfgs)*
        #(#hidden)*
        #[doc = #doc]
        #[non_exhaustive]
        #vis struct #ty {}
    }
}

/// The arguments as they are stored.
fn input_type(workflow: &Workflow) -> TokenStream {
    let Workflow { function, arguments, options, .. } = workflow;
    let (vis, library, input) = (&function.vis, &options.library, input_name());
    let serde = options.library.private_text("serde");
    let fields = arguments.iter().map(|argument| {
        let (cfgs, field, ty) = (&argument.cfgs, argument.ident(), &argument.ty);
        quote!(#(#cfgs)* #vis #field: #ty)
    });
    quote! {
        #[doc(hidden)]
        #[allow(clippy::arbitrary_source_item_ordering)]
        #[derive(#library::__private::serde::Serialize, #library::__private::serde::Deserialize)]
        #[serde(crate = #serde)]
        #vis struct #input { #(#fields),* }
    }
}

/// `digest::start(doc)`, and what the library needs to run it.
fn implementation(workflow: &Workflow) -> TokenStream {
    let Workflow { function, arguments, output, options } = workflow;
    let (vis, library, body) = (&function.vis, &options.library, &function.body);
    let (ty, input, value) = (type_name(workflow), input_name(), Ident::new("input", Span::mixed_site()));
    let name = options.name.clone().unwrap_or_else(|| function.name());
    let version = options.version;
    let parameters: Vec<_> = arguments.iter().map(|argument| argument.declare()).collect();
    let fields: Vec<_> = arguments.iter().map(|argument| argument.field()).collect();
    let lints: Vec<_> = function.lints().collect();
    let typed = function::typed(output);
    let bindings = arguments.iter().map(|argument| argument.bind());
    let codec = match options.codec {
        Codec::Json => quote!(Json),
        Codec::Bincode => quote!(Bincode),
    };
    let outcome = library.outcome_codec(output, options.codec);
    let queue = options
        .queue
        .iter()
        .map(|queue| quote!(const QUEUE: ::core::option::Option<&'static str> = ::core::option::Option::Some(#queue);));
    let retry = options.retry.iter().map(|retry| {
        let policy = retry.expr(library);
        quote!(const RETRY: #library::__private::RetryPolicy = #policy;)
    });
    quote! {
        // A long list of arguments is told of once, at the user's function.
        #[allow(clippy::too_many_arguments)]
        #(#lints)*
        impl #ty {
            /// Starts the workflow, to run in this process or another: `.id(..)` names the run, `.await` stores it.
            #vis fn start(#(#parameters),*) -> #library::Start<Self> {
                #library::Start::<Self>::new(#input { #(#fields),* })
            }

            #[doc(hidden)]
            fn __durable_input(#(#parameters),*) -> #input {
                #input { #(#fields),* }
            }
        }

        impl #library::Workflow for #ty {
            const NAME: &'static str = #name;
            const VERSION: u32 = #version;
            #(#queue)*
            #(#retry)*
            type Input = #input;
            type Output = #output;

            #(#lints)*
            fn body(#value: Self::Input)
                -> impl ::core::future::Future<Output = #output> + ::core::marker::Send + 'static
            {
                async move {
                    #typed
                    let #input { #(#fields),* } = #value;
                    #(#bindings)*
                    #body
                }
            }

            fn outcome() -> #library::__private::OutcomeCodec<Self::Output> {
                #outcome
            }

            fn codec() -> #library::__private::Codec {
                #library::__private::Codec::#codec
            }
        }
    }
}

/// The line in the program's registry.
fn entry(workflow: &Workflow) -> TokenStream {
    let (library, ty) = (&workflow.options.library, type_name(workflow));
    // At the function's name, not at the attribute.
    let at = workflow.function.sig.ident.span();
    let (file, line) = (quote_spanned!(at=> ::core::file!()), quote_spanned!(at=> ::core::line!()));
    quote! {
        #library::__private::inventory::submit! {
            #library::__private::WorkflowEntry::new::<#ty>(#file, #line)
        }
    }
}

/// The type's name, in the macro's context: it need not look like a type, and it is used by the registry.
fn type_name(workflow: &Workflow) -> Ident {
    let mut name = workflow.options.ty.as_ref().unwrap_or(&workflow.function.sig.ident).clone();
    name.set_span(name.span().resolved_at(Span::call_site()));
    name
}

/// A name that is not the user's: the body is spliced where it can be seen.
fn input_name() -> Ident {
    format_ident!("__DurableInput")
}

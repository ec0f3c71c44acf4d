//! Refusals that both attributes share.
//!
//! Guarantees one sentence each, at the token, with a way round. A refusal of one attribute alone is in its `lower`.

use quote::ToTokens;
use syn::visit::Visit;
use syn::{Lifetime, ParenthesizedGenericArguments, Safety, Type, TypeFnPtr, TypeImplTrait, TypeReference};

use crate::errors::Errors;
use crate::function::Function;

/// What no durable function can be: not async, `const`, `unsafe`, `extern`, or traced from below.
pub(crate) fn qualifiers(function: &Function, what: &str, errors: &mut Errors) {
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        let boxed = sig.output.to_token_stream().to_string().contains("Pin");
        let hint = if boxed { "; `#[async_trait]` has rewritten it: use a trait with plain async methods" } else { "" };
        errors.refuse(sig.fn_token, format!("a {what} is an `async fn`: write `async` before `fn`{hint}"));
    }
    if let Some(token) = &sig.constness {
        errors.refuse(token, format!("a {what} cannot be `const`: it runs in an executor; remove `const`"));
    }
    if let Safety::Unsafe(token) = &sig.safety {
        errors.refuse(
            token,
            format!("a {what} cannot be `unsafe`: nobody renews the caller's promise when it runs again after a crash; put an `unsafe` block inside a safe fn"),
        );
    }
    if let Some(abi) = &sig.abi {
        errors.refuse(abi, format!("a {what} cannot be `extern`: call it from an `extern` fn instead"));
    }
    if let Some(dots) = &sig.variadic {
        errors.refuse(dots, format!("a {what} cannot be variadic: take a `Vec`"));
    }
    for attr in &function.attrs {
        if attr.path().segments.last().is_some_and(|last| last.ident == "instrument") {
            errors.refuse(
                attr.path(),
                format!("put `#[instrument]` above `#[{what}]`: below it, the span would end before the body runs"),
            );
        }
    }
}

/// What no outcome can be: never, opaque, or borrowed.
pub(crate) fn output(output: &Type, what: &str, errors: &mut Errors) {
    if let Type::Never(never) = output {
        errors.refuse(never, format!("a {what} cannot return `!`: its outcome is recorded, so there must be one"));
    }
    for ty in borrows(output).opaque {
        errors.refuse(
            ty,
            format!("a {what} cannot return `impl Trait`: its outcome is read back after a crash, so name the type"),
        );
    }
    for ty in borrows(output).references {
        errors.refuse(
            ty,
            format!("a {what} cannot return a reference: its outcome outlives the call; return {}", owned(ty)),
        );
    }
    for lifetime in borrows(output).lifetimes {
        errors.refuse(
            lifetime,
            format!("a {what} cannot return a borrow: its outcome outlives the call; return an owned type"),
        );
    }
}

/// What a type borrows or hides.
#[derive(Default)]
pub(crate) struct Borrows<'a> {
    /// `&T` and `&mut T`.
    pub(crate) references: Vec<&'a TypeReference>,
    /// `'_`.
    pub(crate) lifetimes: Vec<&'a Lifetime>,
    /// `impl Trait`.
    pub(crate) opaque: Vec<&'a TypeImplTrait>,
}

/// The borrows in a type. Those of function pointers and `Fn(..)` bounds are their own.
pub(crate) fn borrows(ty: &Type) -> Borrows<'_> {
    let mut found = Borrows::default();
    found.visit_type(ty);
    found
}

impl<'a> Visit<'a> for Borrows<'a> {
    fn visit_type_reference(&mut self, ty: &'a TypeReference) {
        self.references.push(ty);
    }

    fn visit_type_impl_trait(&mut self, ty: &'a TypeImplTrait) {
        self.opaque.push(ty);
    }

    fn visit_lifetime(&mut self, lifetime: &'a Lifetime) {
        if lifetime.ident == "_" {
            self.lifetimes.push(lifetime);
        }
    }

    fn visit_type_fn_ptr(&mut self, _: &'a TypeFnPtr) {}

    fn visit_parenthesized_generic_arguments(&mut self, _: &'a ParenthesizedGenericArguments) {}
}

/// The owned type to write instead of a reference, in backticks.
pub(crate) fn owned(reference: &TypeReference) -> String {
    match &*reference.elem {
        Type::Slice(slice) => format!("`Vec<{}>`", show(&slice.elem)),
        Type::TraitObject(_) | Type::ImplTrait(_) => "an owned, serializable type".to_owned(),
        Type::Reference(inner) => owned(inner),
        ty => match show(ty).as_str() {
            "str" => "`String`".to_owned(),
            name if name == "Path" || name.ends_with("::Path") => format!("`{name}Buf`"),
            name => format!("`{name}`"),
        },
    }
}

/// A type as a person writes it.
pub(crate) fn show(tokens: impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    [(" :: ", "::"), (":: ", "::"), (" < ", "<"), (" >", ">"), (" ,", ","), ("& ", "&"), (" [", "["), ("[ ", "[")]
        .iter()
        .fold(text, |text, (from, to)| text.replace(from, to))
}

//! `Function`: an item that an attribute was put on, and its arguments.
//!
//! Guarantees that the body is kept as tokens, never parsed: it comes out as it went in, spans included. Does not
//! refuse anything.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{
    AttrStyle, Attribute, Error, FnArg, Ident, Meta, Pat, PatIdent, Receiver, Result, ReturnType, Signature, Token,
    Type, Visibility, braced,
};

/// A function or method.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// The statements between the braces; `None` for a trait's method without a body.
    pub(crate) body: Option<TokenStream>,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig = input.parse()?;
        if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
            return Ok(Self { attrs, vis, sig, body: None });
        }
        let statements;
        braced!(statements in input);
        for mut attr in statements.call(Attribute::parse_inner)? {
            // The body moves into a block of its own; what was said of the function stays on the function.
            attr.style = AttrStyle::Outer;
            attrs.push(attr);
        }
        Ok(Self { attrs, vis, sig, body: Some(statements.parse()?) })
    }
}

impl Function {
    /// Reads the item under `#[what]`.
    pub(crate) fn of(item: TokenStream, what: &str) -> Result<Self> {
        syn::parse2(item)
            .map_err(|error| Error::new(error.span(), format!("`#[{what}]` goes on an `async fn`: {error}")))
    }

    /// The declared return type.
    pub(crate) fn output(&self) -> Type {
        match &self.sig.output {
            ReturnType::Default => Type::Tuple(syn::TypeTuple {
                attrs: Vec::new(),
                paren_token: syn::token::Paren::default(),
                elems: syn::punctuated::Punctuated::new(),
            }),
            ReturnType::Type(_, ty) => (**ty).clone(),
        }
    }

    /// `self`, if it is a method.
    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.sig.receiver()
    }

    /// The arguments without `self`.
    pub(crate) fn arguments(&self) -> Vec<Argument> {
        let typed = || {
            self.sig.inputs.iter().filter_map(|input| match input {
                FnArg::Typed(typed) => Some(typed),
                FnArg::Receiver(_) => None,
            })
        };
        let taken: Vec<String> = typed().filter_map(|typed| plain(&typed.pat)).map(|ident| ident.to_string()).collect();
        typed()
            .enumerate()
            .map(|(index, typed)| {
                let (cfgs, attrs) = typed.attrs.iter().cloned().partition(|attr| attr.path().is_ident("cfg"));
                let ident = match plain(&typed.pat) {
                    Some(ident) => ident.clone(),
                    None => free(index, &taken),
                };
                Argument { cfgs, attrs, ident, pat: (*typed.pat).clone(), ty: (*typed.ty).clone() }
            })
            .collect()
    }

    /// The attributes that decide whether the item exists; whatever stands beside it must have them too.
    pub(crate) fn cfgs(&self) -> impl Iterator<Item = &Attribute> {
        self.attrs.iter().filter(|attr| attr.path().is_ident("cfg"))
    }

    /// The attributes that set lint levels, for a body that moves away from them.
    pub(crate) fn lints(&self) -> impl Iterator<Item = TokenStream> {
        let levels = ["allow", "expect", "warn", "deny", "forbid"];
        self.attrs.iter().filter(move |attr| levels.iter().any(|level| attr.path().is_ident(level))).map(permissive)
    }

    /// The name as it is stored: without `r#`.
    pub(crate) fn name(&self) -> String {
        self.sig.ident.unraw().to_string()
    }
}

/// One argument.
pub(crate) struct Argument {
    /// Whether it exists.
    pub(crate) cfgs: Vec<Attribute>,
    attrs: Vec<Attribute>,
    ident: Ident,
    pat: Pat,
    pub(crate) ty: Type,
}

impl Argument {
    /// Its name in the expansion: the user's word, which no token of the user's can refer to. The signature shows
    /// it; that the user's own binding is another one keeps `unused_variables` true and clippy's `shadow` quiet.
    pub(crate) fn ident(&self) -> Ident {
        let mut ident = self.ident.clone();
        ident.set_span(ident.span().resolved_at(Span::mixed_site()));
        ident
    }

    /// `name: Type`, for a list of parameters or fields.
    pub(crate) fn declare(&self) -> TokenStream {
        let (cfgs, ident, ty) = (&self.cfgs, self.ident(), &self.ty);
        quote!(#(#cfgs)* #ident: #ty)
    }

    /// `name`, for a list of fields.
    pub(crate) fn field(&self) -> TokenStream {
        let (cfgs, ident) = (&self.cfgs, self.ident());
        quote!(#(#cfgs)* #ident)
    }

    /// Binds the user's pattern at the start of the body. As in a plain `async fn`, all of the argument moves into
    /// the future and lives as long, whatever the pattern takes of it.
    pub(crate) fn bind(&self) -> TokenStream {
        let (cfgs, attrs, ident, pat) = (&self.cfgs, &self.attrs, self.ident(), &self.pat);
        let whole = plain(pat).is_none().then(|| quote!(#(#cfgs)* let #ident = #ident;));
        quote!(#whole #(#cfgs)* #(#attrs)* let #pat = #ident;)
    }

    /// The user's token to point at.
    pub(crate) fn token(&self) -> TokenStream {
        self.pat.to_token_stream()
    }

    /// True for `&T` and `&'a T`.
    pub(crate) fn is_shared_reference(&self) -> bool {
        matches!(&self.ty, Type::Reference(reference) if reference.mutability.is_none())
    }

    /// True for `&mut T`.
    pub(crate) fn is_exclusive_reference(&self) -> bool {
        matches!(&self.ty, Type::Reference(reference) if reference.mutability.is_some())
    }
}

/// The attribute, an expectation as a permission: put on two functions, it would not be met by one of them.
pub(crate) fn permissive(attr: &Attribute) -> TokenStream {
    match &attr.meta {
        Meta::List(list) if list.path.is_ident("expect") => {
            let lints = &list.tokens;
            quote!(#[allow(#lints)])
        }
        _ => attr.to_token_stream(),
    }
}

/// Gives an async block the output type that a plain async fn would have, so that `?`, coercions and early returns
/// mean the same in it; there is no other place in a block to write it. Never runs.
pub(crate) fn typed(output: &Type) -> TokenStream {
    let never = Ident::new("never", Span::mixed_site());
    quote! {
        if let ::core::option::Option::Some(#never) = ::core::option::Option::None::<#output> {
            return #never;
        }
    }
}

/// The name of `name` and `mut name`.
fn plain(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => Some(ident),
        _ => None,
    }
}

/// `arg0` for a pattern without a name, or the next word that no argument has.
fn free(index: usize, taken: &[String]) -> Ident {
    let mut ident = format_ident!("arg{index}");
    while taken.iter().any(|name| ident == name) {
        ident = format_ident!("{ident}_");
    }
    ident
}

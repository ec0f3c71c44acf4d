//! `Library`: where the expansion finds the library, and the calls into it that both attributes make.
//!
//! Guarantees that every path is absolute, so that nothing in the user's scope changes what it means. Knows the
//! names of `durable::__private` and nothing of what is behind them.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Error, Path, Result, Type};

use crate::attribute::Entry;

/// The path of the library: `::durable`, unless `crate = ".."` says otherwise.
pub(crate) struct Library(TokenStream);

impl Default for Library {
    fn default() -> Self {
        Self(quote!(::durable))
    }
}

impl ToTokens for Library {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

impl Library {
    /// `crate = "some::path"`.
    pub(crate) fn parse(entry: &Entry) -> Result<Self> {
        let text = entry.text()?;
        match Path::parse_mod_style.parse_str(&text.value()) {
            Ok(path) => Ok(Self(path.to_token_stream())),
            Err(_) => Err(Error::new(text.span(), format!("`{}` is not a path to a crate or module", text.value()))),
        }
    }

    /// The path as text without spaces, for attributes that want a string.
    pub(crate) fn private_text(&self, name: &str) -> String {
        let mut text = self.0.to_string();
        text.retain(|c| !c.is_whitespace());
        format!("{text}::__private::{name}")
    }

    /// How outcomes of type `output` are encoded; a type that cannot be is an error at that type.
    pub(crate) fn outcome_codec(&self, output: &Type, codec: Codec) -> TokenStream {
        // In the place of the type, in the macro's context: errors point there, lints do not.
        let span = output.span().resolved_at(Span::call_site());
        let library = self.0.clone().into_iter().map(|mut token| {
            token.set_span(span);
            token
        });
        let library = TokenStream::from_iter(library);
        let format = match codec {
            Codec::Json => quote!(json),
            Codec::Bincode => quote!(bincode),
        };
        quote_spanned!(span=> #library::__outcome!(#output, #format))
    }
}

/// Which codec writes the payloads.
#[derive(Clone, Copy, Default)]
pub(crate) enum Codec {
    /// Text that SQL can read.
    #[default]
    Json,
    /// Bytes.
    Bincode,
}

impl Codec {
    /// `codec = "json"` or `codec = "bincode"`.
    pub(crate) fn parse(entry: &Entry) -> Result<Self> {
        let text = entry.text()?;
        match text.value().as_str() {
            "json" => Ok(Self::Json),
            "bincode" => Ok(Self::Bincode),
            other => Err(Error::new(text.span(), format!("unknown codec `{other}`: there are `json` and `bincode`"))),
        }
    }
}

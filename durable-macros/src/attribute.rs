//! The arguments of an attribute: `key`, `key = value` and `key(..)`, separated by commas.
//!
//! Guarantees that an unknown key is answered with the known ones and that no key counts twice. Does not know what
//! the keys mean.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Path, Result, Token, parenthesized};

use crate::errors::Errors;

/// All arguments of one attribute, or those inside the parentheses of a key.
#[derive(Default)]
pub(crate) struct Arguments(Vec<Entry>);

/// One argument.
pub(crate) struct Entry {
    /// The word before `=` or `(`; may be a keyword such as `type`.
    pub(crate) key: Ident,
    value: Value,
}

enum Value {
    None,
    Is(Box<Expr>),
    List(Arguments),
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let entries = Punctuated::<Entry, Token![,]>::parse_terminated(input)?;
        Ok(Self(entries.into_iter().collect()))
    }
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let key = input.call(Ident::parse_any)?;
        let value = if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            Value::Is(input.parse()?)
        } else if input.peek(syn::token::Paren) {
            let list;
            parenthesized!(list in input);
            Value::List(list.parse()?)
        } else {
            Value::None
        };
        Ok(Self { key, value })
    }
}

impl Arguments {
    /// The entries whose key was not given before; a repeated one is an error.
    pub(crate) fn distinct(self, errors: &mut Errors) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        for entry in self.0 {
            if entries.iter().any(|other| other.key == entry.key) {
                errors.refuse(&entry.key, format!("`{}` is given twice", entry.key));
            } else {
                entries.push(entry);
            }
        }
        entries
    }
}

impl Entry {
    /// The answer to a key that `place` does not have.
    pub(crate) fn unknown(&self, place: &str, known: &[&str]) -> Error {
        let list = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        Error::new(self.span(), format!("unknown key `{}`: {place} knows {list}", self.key))
    }

    /// The answer to a key that a later version will have.
    pub(crate) fn not_yet(&self) -> Error {
        Error::new(self.span(), format!("`{}` is not supported yet", self.key))
    }

    /// `key = "text"`.
    pub(crate) fn text(&self) -> Result<LitStr> {
        match self.literal() {
            Some(Lit::Str(text)) => Ok(text.clone()),
            _ => Err(self.expected("= \"..\"")),
        }
    }

    /// `key = "text"`, with at least one character that can be seen.
    pub(crate) fn name(&self) -> Result<String> {
        let text = self.text()?;
        if text.value().trim().is_empty() {
            return Err(Error::new(text.span(), format!("`{}` cannot be empty", self.key)));
        }
        Ok(text.value())
    }

    /// `key = 3`, a whole number from 0 to 4294967295.
    pub(crate) fn whole(&self) -> Result<u32> {
        match self.literal() {
            Some(Lit::Int(number)) => number.base10_parse(),
            _ => Err(self.expected("= 3")),
        }
    }

    /// `key = 2` or `key = 1.5`.
    pub(crate) fn number(&self) -> Result<f64> {
        match self.literal() {
            Some(Lit::Int(number)) => number.base10_parse(),
            Some(Lit::Float(number)) => number.base10_parse(),
            _ => Err(self.expected("= 2.0")),
        }
    }

    /// `key`, `key = true` or `key = false`.
    pub(crate) fn switch(&self) -> Result<bool> {
        match (&self.value, self.literal()) {
            (Value::None, _) => Ok(true),
            (_, Some(Lit::Bool(on))) => Ok(on.value),
            _ => Err(self.expected("= false")),
        }
    }

    /// `key = some::path`.
    pub(crate) fn path(&self) -> Result<Path> {
        match &self.value {
            Value::Is(value) => match &**value {
                Expr::Path(path) if path.qself.is_none() => Ok(path.path.clone()),
                _ => Err(self.expected("= path::to::it")),
            },
            _ => Err(self.expected("= path::to::it")),
        }
    }

    /// `key = Word`.
    pub(crate) fn ident(&self) -> Result<Ident> {
        self.path()?.get_ident().cloned().ok_or_else(|| self.expected("= Name"))
    }

    /// `key` or `key(..)`.
    pub(crate) fn list(self) -> Result<Arguments> {
        match self.value {
            Value::None => Ok(Arguments::default()),
            Value::List(list) => Ok(list),
            Value::Is(_) => Err(self.expected("(..)")),
        }
    }

    /// Where the key stands.
    pub(crate) fn span(&self) -> Span {
        self.key.span()
    }

    /// Where the value stands, or else the key.
    pub(crate) fn value_span(&self) -> Span {
        match &self.value {
            Value::Is(value) => syn::spanned::Spanned::span(&**value),
            _ => self.span(),
        }
    }

    fn literal(&self) -> Option<&Lit> {
        match &self.value {
            Value::Is(value) => match &**value {
                Expr::Lit(ExprLit { lit, .. }) => Some(lit),
                _ => None,
            },
            _ => None,
        }
    }

    fn expected(&self, form: &str) -> Error {
        let key = &self.key;
        let form = if form.starts_with('=') { format!("{key} {form}") } else { format!("{key}{form}") };
        Error::new(self.value_span(), format!("`{key}` is written `{form}`"))
    }
}

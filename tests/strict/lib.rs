//! A crate that denies every lint there is: `cargo clippy` shows that no finding comes from an expansion.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)]
#![deny(future_incompatible, keyword_idents, let_underscore, nonstandard_style, unused)]
#![deny(rust_2018_idioms, rust_2021_compatibility, rust_2024_compatibility)]
#![deny(elided_lifetimes_in_paths, impl_trait_redundant_captures, missing_copy_implementations)]
#![deny(missing_debug_implementations, non_local_definitions, redundant_lifetimes, refining_impl_trait)]
#![deny(single_use_lifetimes, tail_expr_drop_order, unit_bindings, unnameable_types, unreachable_pub)]
#![deny(unused_qualifications, unused_results, variant_size_differences)]
#![allow(
    clippy::allow_attributes,
    clippy::blanket_clippy_restriction_lints,
    clippy::duplicated_attributes,
    clippy::impl_trait_in_params,
    clippy::min_ident_chars,
    clippy::missing_docs_in_private_items,
    clippy::missing_inline_in_public_items,
    clippy::needless_return,
    clippy::question_mark_used,
    clippy::single_call_fn,
    reason = "findings in this file's own code, with attributes or without; `needless_return` contradicts `implicit_return`"
)]

use core::future::ready;

use durable::{step, workflow};

/// One argument of each kind.
///
/// # Errors
///
/// If `first` is no number.
#[step]
pub async fn every_argument(
    first: &str,
    list: &[u32],
    mut bytes: Vec<u8>,
    (left, _): (u8, String),
    _: String,
) -> anyhow::Result<String> {
    bytes.push(left);
    if list.is_empty() {
        return Ok(String::new());
    }
    let number: u32 = first.parse()?;
    ready(()).await;
    return Ok(format!("{first}{number}{bytes:?}"));
}

/// Tried again.
///
/// # Errors
///
/// Never.
#[step(retry(when = is_transient), timeout = "30s", name = "again")]
pub async fn retried(
    first: &str,
    list: &[u32],
    mut bytes: Vec<u8>,
    (left, _): (u8, String),
    generic: impl Clone + Send + Sync,
) -> Result<String, String> {
    bytes.push(left);
    drop(generic.clone());
    ready(()).await;
    return Ok(format!("{first}{list:?}{bytes:?}"));
}

/// Takes and returns nothing.
#[step]
pub async fn unit(text: ()) {
    ready(text).await;
}

/// A workflow.
///
/// # Errors
///
/// If a step fails.
#[workflow]
pub async fn flow(
    doc: String,
    (left, right): (u32, u32),
    r#type: String,
    mut list: Vec<u32>,
) -> anyhow::Result<String> {
    list.push(left.saturating_add(right));
    let _text: String = every_argument(&doc, &list, vec![], (1, String::new()), r#type).await?;
    return Ok(doc);
}

// Not called here: another program may start it.
#[workflow(version = 2, type = Digest, name = "digest")]
async fn digest() {
    ready(()).await;
}

/// A workflow with a long signature.
#[workflow]
#[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools, reason = "it is the case")]
pub async fn long(a: bool, b: bool, c: bool, d: bool, e: u8, f: u8, g: u8, h: u8) -> bool {
    return ready(a && b && c && d && e == f && g == h).await;
}

/// A trait that knows nothing of steps.
pub trait Plain {
    /// Answers.
    fn ask(&self, question: &str) -> impl Future<Output = u32> + Send;
}

/// Implements it by steps.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Service {
    /// Its name.
    pub name: String,
}

impl Plain for Service {
    #[step]
    async fn ask(&self, question: &str) -> u32 {
        return ready(u32::from(question == self.name)).await;
    }
}

impl Service {
    /// By value.
    #[step]
    pub async fn into_name(self, suffix: &str) -> String {
        ready(()).await;
        return format!("{}{suffix}", self.name);
    }

    /// By reference.
    #[step]
    pub async fn name(&self, suffix: &str) -> String {
        ready(()).await;
        return format!("{}{suffix}", self.name);
    }
}

const fn is_transient(error: &str) -> bool {
    return !error.is_empty();
}

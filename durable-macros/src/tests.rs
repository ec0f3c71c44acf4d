//! What an expansion holds, seen as tokens.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use crate::step::step;
use crate::workflow::workflow;

fn words(tokens: TokenStream) -> Vec<String> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => words(group.stream()),
            token => vec![token.to_string()],
        })
        .collect()
}

fn count(tokens: TokenStream, word: &str) -> usize {
    words(tokens).iter().filter(|other| *other == word).count()
}

#[test]
fn the_body_is_in_the_expansion_once() {
    let item = quote! {
        async fn charge(&self, cents: u32, (a, b): (u32, u32)) -> Result<u32, E> { tally!(); Ok(cents) }
    };
    assert_eq!(count(step(quote!(), item.clone()).unwrap(), "tally"), 1);
    assert_eq!(count(step(quote!(retry(when = w), timeout = "1s"), item).unwrap(), "tally"), 1);
    let item = quote! {
        async fn digest(cents: u32, (a, b): (u32, u32)) -> Result<u32, E> { tally!(); Ok(cents) }
    };
    assert_eq!(count(workflow(quote!(version = 2), item).unwrap(), "tally"), 1);
}

#[test]
fn an_expansion_grows_by_its_arguments_alone() {
    let sizes = |expand: &dyn Fn(TokenStream) -> TokenStream| {
        [0_usize, 1, 2, 20].map(|count| {
            let arguments = (0..count).map(|n| quote::format_ident!("a{n}"));
            words(expand(quote!(async fn f(#(#arguments: u32),*) {}))).len()
        })
    };
    let linear = |[none, one, two, twenty]: [usize; 4]| {
        assert_eq!(twenty - one, 19 * (two - one), "each argument costs the same");
        assert!(none < 400 && two - one < 60, "{none} words, {} more for each argument", two - one);
    };
    linear(sizes(&|item| step(quote!(), item).unwrap()));
    linear(sizes(&|item| step(quote!(retry), item).unwrap()));
    linear(sizes(&|item| workflow(quote!(), item).unwrap()));
}

#[test]
fn every_path_is_absolute() {
    let item = quote!(
        async fn f(a: u32) -> Result<u32, E> {
            Ok(a)
        }
    );
    for expansion in [step(quote!(retry, timeout = "1s"), item.clone()), workflow(quote!(), item)] {
        let words = words(expansion.unwrap());
        for (at, word) in words.iter().enumerate().filter(|(_, word)| ["core", "durable"].contains(&word.as_str())) {
            assert_eq!(&words[at - 2..at], [":", ":"], "`{word}` could be something of the user's");
        }
    }
}

#[test]
fn the_library_can_be_elsewhere() {
    let item = quote!(
        async fn f(a: u32) -> Result<u32, E> {
            Ok(a)
        }
    );
    let attribute = quote!(crate = "crate::vendored::library");
    for expansion in [step(attribute.clone(), item.clone()), workflow(attribute, item)] {
        assert_eq!(count(expansion.unwrap(), "durable"), 0);
    }
}

#[test]
fn all_errors_of_one_item_are_reported_at_once() {
    let item = quote!(
        unsafe extern "C" fn f(a: &mut u32) -> &str {}
    );
    let error = step(quote!(colour, timeout = "soon", retry(max_attempts = 0)), item).unwrap_err();
    assert_eq!(error.into_iter().count(), 8);
}

//! The library's layers: imports point down only, and the drivers stay in the store.

use std::path::Path;

use crate::support::{Source, sources};

/// Lines of a module.
const LONGEST: usize = 500;

/// From the top down; inside a layer only what [`BESIDE`] lists.
const LAYERS: [&[&str]; 7] = [
    &["private", "runtime"],
    &["client"],
    &["executor"],
    &["registry", "workflow"],
    &["replay", "writer"],
    &["store"],
    &["model", "codec", "clock", "crash", "error", "event", "ids"],
];

/// Imports inside one layer: who may import whom.
const BESIDE: [(&str, &[&str]); 7] = [
    ("private", &[]),
    ("registry", &["workflow"]),
    ("model", &["codec", "error", "ids"]),
    ("codec", &["error"]),
    ("ids", &["error"]),
    ("event", &["model"]),
    ("clock", &["model"]),
];

fn module(path: &Path) -> String {
    let first = path.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

fn layer(module: &str) -> usize {
    let found = LAYERS.iter().position(|layer| layer.contains(&module));
    found.unwrap_or_else(|| panic!("the module `{module}` is in no layer"))
}

/// The code of a file: no comments, and nothing from its unit tests on.
fn code(source: &Source) -> String {
    let text = source.text.split("#[cfg(test)]").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The top-level modules that a file names.
fn imports(source: &Source) -> Vec<String> {
    let code = code(source);
    // What a macro of ours says in the user's crate is `$crate::…`; a macro itself is at the root.
    let code = code.replace("$crate::", "");
    let named = code.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
        if rest[end..].starts_with('!') { String::new() } else { rest[..end].to_owned() }
    });
    named.filter(|name| !name.is_empty()).collect()
}

#[test]
fn imports_point_down_only() {
    let mut wrong = Vec::new();
    for source in sources("rs") {
        let from = module(&source.path);
        if from == "lib" || source.path.ends_with("tests.rs") {
            continue;
        }
        for to in imports(&source) {
            let beside = BESIDE.iter().any(|(who, whom)| *who == from && whom.contains(&to.as_str()));
            let down = LAYERS.iter().any(|layer| layer.contains(&to.as_str())) && layer(&from) < layer(&to);
            if to != from && !down && !beside {
                wrong.push(format!("{} imports `{to}`", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_model_and_the_decisions_of_replay_do_no_io() {
    for source in sources("rs") {
        if ["model", "codec", "ids", "replay", "error", "event"].contains(&module(&source.path).as_str()) {
            for word in ["tokio::", "sqlx", "std::fs", "std::net", ".await"] {
                assert!(!code(&source).contains(word), "{} has `{word}`", source.path.display());
            }
        }
    }
}

#[test]
fn the_drivers_stay_in_the_store() {
    let wrong: Vec<_> = sources("rs")
        .into_iter()
        .filter(|source| !source.path.starts_with("store") && code(source).contains("sqlx"))
        .map(|source| source.path)
        .collect();
    // The pool that a program hands over.
    assert_eq!(wrong, [Path::new("runtime/builder.rs")]);
    let builder = sources("rs").into_iter().find(|source| source.path == wrong[0]).unwrap();
    assert_eq!(code(&builder).matches("sqlx").count(), 1);
}

#[test]
fn every_module_says_what_it_is_and_fits_on_a_few_screens() {
    for source in sources("rs") {
        let shown = source.path.display();
        let tests = source.path.file_name().is_some_and(|name| name == "tests.rs");
        assert!(tests || source.text.starts_with("//! "), "{shown} does not begin with its purpose");
        assert!(source.text.lines().count() <= LONGEST, "{shown} is too long");
        for name in ["util", "utils", "common", "helpers", "types", "misc"] {
            assert!(source.path.file_stem().is_some_and(|stem| stem != name), "{shown} is named for nothing");
        }
    }
}

#[test]
fn no_payload_is_cast_to_jsonb() {
    for source in sources("sql") {
        assert!(!source.text.contains("jsonb"), "{}", source.path.display());
    }
}

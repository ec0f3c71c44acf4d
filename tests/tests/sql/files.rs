//! The statements as files: both dialects, their heads, and that each prepares on its database.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use durable_tests::{postgres, sqlite};
use sqlx::{AssertSqlSafe, Connection, Executor, SqlSafeStr, SqliteConnection};

use crate::support::{Source, connect, library, runtime, sources};

/// Lines of a statement's file.
const LONGEST: usize = 80;

/// Verbs that one dialect needs more or fewer statements for, and why.
const ONE_DIALECT: [(&str, &str); 37] = [
    ("write/batch.postgres", "one statement for all kinds; SQLite has one for each kind"),
    ("write/start.sqlite", "a part of the batch"),
    ("write/input.sqlite", "a part of the batch"),
    ("write/attempt.sqlite", "a part of the batch"),
    ("write/result.sqlite", "a part of the batch"),
    ("write/settle.sqlite", "a part of the batch"),
    ("executor/suspects.postgres", "a free lock is judged at once on SQLite"),
    ("executor/others.sqlite", "file locks are looked at outside the database"),
    ("executor/register_writer.sqlite", "a part of the registration"),
    ("executor/void.sqlite", "a part of the takeover"),
    ("executor/forget.sqlite", "a part of the release"),
    ("executor/forget_writers.sqlite", "a part of the release"),
    ("workflow/interrupt.sqlite", "a part of the cancel"),
    ("workflow/resume_lock.postgres", "nothing is in flight on SQLite"),
    ("workflow/resume_remove.sqlite", "a part of setting aside"),
    ("claim/inputs.sqlite", "Postgres claims with the inputs"),
    ("claim/due.sqlite", "a part of the claim"),
    ("claim/promote.sqlite", "a part of the claim"),
    ("claim/held.sqlite", "a part of the claim"),
    ("claim/groups.sqlite", "a part of the claim"),
    ("claim/heads.sqlite", "a part of the claim"),
    ("claim/running.sqlite", "a part of the claim"),
    ("claim/rate.sqlite", "a part of the claim"),
    ("claim/partitions.sqlite", "a part of the claim"),
    ("claim/partition_heads.sqlite", "a part of the claim"),
    ("claim/turn.sqlite", "a part of the claim"),
    ("claim/note_claims.sqlite", "a part of the claim"),
    ("claim/forget_claims.sqlite", "a part of the claim"),
    ("enqueue/wake.postgres", "SQLite's processes see that the file changed"),
    ("enqueue/input.sqlite", "a part of the enqueue"),
    ("enqueue/taken.sqlite", "a part of the enqueue"),
    ("enqueue/missing.sqlite", "a part of the enqueue"),
    ("enqueue/link.sqlite", "a part of the enqueue"),
    ("enqueue/waited_for.sqlite", "a part of the enqueue"),
    ("enqueue/wait.sqlite", "a part of the enqueue"),
    ("enqueue/fall.sqlite", "a part of the enqueue"),
    ("executor/told.sqlite", "a part of the beat"),
];

fn name(source: &Source) -> String {
    let path = source.path.strip_prefix("store").unwrap().with_extension("");
    path.display().to_string()
}

fn of_dialect(dialect: &str) -> Vec<Source> {
    let suffix = format!(".{dialect}");
    let found: Vec<_> = sources("sql").into_iter().filter(|source| name(source).ends_with(&suffix)).collect();
    assert!(found.len() > 10);
    found
}

#[test]
fn every_statement_exists_in_both_dialects_or_says_why_not() {
    let mut verbs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources("sql") {
        let name = name(&source);
        let (verb, dialect) = name.rsplit_once('.').unwrap();
        verbs.entry(verb.to_owned()).or_default().insert(dialect.to_owned());
    }
    let alone: BTreeSet<String> = verbs
        .iter()
        .filter(|(_, dialects)| dialects.len() == 1)
        .map(|(verb, dialects)| format!("{verb}.{}", dialects.first().unwrap()))
        .collect();
    let excused: BTreeSet<String> = ONE_DIALECT.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(alone, excused);
    let dialects: BTreeSet<_> = verbs.into_values().flatten().collect();
    assert_eq!(dialects.into_iter().collect::<Vec<_>>(), ["postgres", "sqlite"]);
}

#[test]
fn every_verb_group_has_its_trait_and_both_implementations() {
    let groups: BTreeSet<_> = sources("sql").iter().map(|source| source.path.parent().unwrap().to_owned()).collect();
    for group in groups {
        for file in ["mod.rs", "postgres.rs", "sqlite.rs"] {
            let path = library().join("src").join(&group).join(file);
            assert!(path.is_file(), "{} is missing", path.display());
        }
    }
}

#[test]
fn every_statement_begins_with_what_it_does_and_is_short() {
    for source in sources("sql") {
        let (name, mut lines) = (name(&source), source.text.lines());
        let first = lines.next().unwrap();
        assert!(first.starts_with("-- ") && first.len() > 20, "{name} begins with `{first}`");
        assert!(source.text.lines().count() <= LONGEST, "{name} is too long");
        assert!(!source.text.contains("->>") || name.ends_with("sqlite"), "{name} reads into a payload");
    }
}

/// The head of a file says which binds it takes: all that the statement has, and no other.
#[test]
fn every_statement_lists_its_binds() {
    for source in sources("sql") {
        let mark = if name(&source).ends_with("postgres") { '$' } else { '?' };
        let head: String = source.text.lines().take_while(|line| line.starts_with("--")).collect();
        let body: String = source.text.lines().skip_while(|line| line.starts_with("--")).collect();
        let (told, used) = (highest(&head, mark), highest(&body, mark));
        assert_eq!(told, used, "{}: the head tells of {told} binds, the statement has {used}", name(&source));
    }
}

fn highest(text: &str, mark: char) -> u32 {
    let numbers = text.split(mark).skip(1).filter_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    numbers.max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_postgres_statement_prepares() {
    let url = postgres::fresh_database().await;
    runtime(&url).await.shutdown().await;
    let mut connection = connect(&url).await;
    for source in of_dialect("postgres") {
        // As it stands, with no types told: a person can paste it.
        let prepared = connection.prepare(AssertSqlSafe(source.text.clone()).into_sql_str()).await;
        assert!(prepared.is_ok(), "{}: {}", name(&source), prepared.err().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sqlite_statement_prepares() {
    let file = sqlite::fresh_database();
    runtime(file.url()).await.shutdown().await;
    let mut connection = SqliteConnection::connect(file.url()).await.unwrap();
    for source in of_dialect("sqlite") {
        let prepared = (&mut connection).prepare(AssertSqlSafe(source.text.clone()).into_sql_str()).await;
        assert!(prepared.is_ok(), "{}: {}", name(&source), prepared.err().unwrap());
    }
}

#[test]
fn both_databases_have_the_same_migrations() {
    let list = |store: &str| -> Vec<String> {
        let folder = library().join("migrations").join(store);
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(list("postgres"), list("sqlite"));
    assert!(Path::new(&list("postgres")[0]).extension().is_some_and(|found| found == "sql"));
}

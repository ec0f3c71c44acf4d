//! Enqueueing from outside: clients that run nothing, many at once, hostile text, and SQL.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use durable::{Client, Enqueue, ErrorKind, QueueLimits, RunId, Start, WorkflowStatus, workflow};
use durable_tests::{Database, Store, everywhere};
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection, Row};

use crate::support::{Probe, becomes, begin, execute, probe, quick, rows};

#[workflow]
async fn parcel(word: String) -> String {
    probe().note(&word);
    word
}

#[workflow(name = "its 'name'; -- \\ 이", queue = "it's \\ a \"queue\"; -- 이메일", version = 3)]
async fn odd_parcel(word: String) -> String {
    word
}

fn parcel_with(id: &str) -> Start<parcel> {
    parcel::start(id.to_owned()).id(id)
}

async fn client_of(database: &Database) -> Client {
    quick(database, &Probe::default()).client().await.unwrap()
}

/// Everything that a start can leave.
async fn left(database: &Database) -> Vec<String> {
    let mut left = Vec::new();
    for table in ["workflows", "workflow_payloads", "workflow_dependencies"] {
        left.extend(rows(database, &format!("SELECT count(*) FROM {table}")).await);
    }
    left
}

/// Text that ends statements, quotes, arrays and lines elsewhere, up to the longest.
fn hostile() -> Vec<String> {
    let fine = [
        "'; DROP TABLE workflows; --",
        "\"q\"",
        "\\",
        "\\'",
        "$1",
        "%s",
        "{a,b}",
        "NULL",
        "null",
        "/* x",
        "이메일 🦀",
        " a ",
        "\u{feff}x",
        "e\u{301}",
        "\u{202e}x",
        "a\u{a0}b",
    ];
    fine.into_iter().map(str::to_owned).chain(["x".repeat(512), "é".repeat(256)]).collect()
}

/// Text that no key may be.
fn refused() -> Vec<String> {
    let wrong = ["", " ", "\u{3000}", "a\0b", "\0", "a\nb", "a\tb", "\u{1b}[31m", "a\u{7f}", "a\u{85}b"];
    wrong.into_iter().map(str::to_owned).chain(["x".repeat(513), "é".repeat(257), "x".repeat(10 << 10)]).collect()
}

everywhere! {
    async fn a_client_without_a_runtime_submits_and_waits(database: Database) {
        let client = client_of(&database).await;
        let run = client.start(parcel_with("a")).await.unwrap();
        let id = client.enqueue("parcel", json!({ "word": "by name" })).id("b").await.unwrap();
        assert_eq!(id, "b");
        assert_eq!(rows(&database, "SELECT workflow_id, status, epoch FROM workflows ORDER BY submission").await,
            ["a|pending|0", "b|pending|0"]);
        assert!(rows(&database, "SELECT executor_id FROM executors").await.is_empty());
        let (runtime, _) = begin(&database).await;
        assert_eq!(run.result().await.unwrap(), "a");
        assert_eq!(client.handle::<parcel>("b").result().await.unwrap(), "by name");
        runtime.shutdown().await;
    }

    async fn many_are_recorded_in_their_order_with_all_they_were_told(database: Database) {
        let client = client_of(&database).await;
        client.set_queue("q", QueueLimits::new()).await.unwrap();
        let runs = client.start_many((0..2_500).map(|n| parcel_with(&format!("{n:04}")))).await.unwrap();
        assert!(runs.iter().enumerate().all(|(n, run)| run.id() == format!("{n:04}")));
        let ids = rows(&database, "SELECT workflow_id FROM workflows ORDER BY submission").await;
        assert!(ids.iter().enumerate().all(|(n, id)| *id == format!("{n:04}")));
        let told = client.enqueue("parcel", json!({ "word": "x" })).id("told").queue("q").priority(-3).version(4)
            .dedup_key("d").partition_key("p").tags(["one", "two"]).tags(["three"]).at(SystemTime::now() + Duration::from_secs(3600));
        told.await.unwrap();
        assert_eq!(rows(&database, "SELECT name, version, status, reason, queue, priority, dedup_key, partition_key FROM workflows
            WHERE workflow_id = 'told'").await, ["parcel|4|waiting|delay|q|-3|d|p"]);
        let tags = rows(&database, "SELECT tags FROM workflows WHERE workflow_id = 'told'").await;
        assert!(["one", "two", "three"].iter().all(|tag| tags[0].contains(tag)), "{tags:?}");
        assert!(client.start_many(Vec::<Start<parcel>>::new()).await.unwrap().is_empty());
    }

    async fn many_are_recorded_together_or_not_at_all(database: Database) {
        let client = client_of(&database).await;
        let batches: [(Start<parcel>, ErrorKind); 5] = [
            (parcel_with("bad\n"), ErrorKind::InvalidId),
            (parcel_with("bad").queue("nobody's"), ErrorKind::UnknownQueue),
            (parcel_with("bad").after([&"nobody"]), ErrorKind::NotFound),
            (parcel_with("bad").tags([""]), ErrorKind::InvalidOption),
            (parcel_with("bad").delay(Duration::MAX), ErrorKind::InvalidOption),
        ];
        for (bad, kind) in batches {
            let error = client.start_many([parcel_with("a"), bad, parcel_with("b")]).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(left(&database).await, ["0", "0", "0"], "{error}");
        }
    }

    async fn the_same_id_and_input_is_the_same_run(database: Database) {
        let client = client_of(&database).await;
        let runs = client.start_many([parcel_with("a"), parcel_with("a"), parcel_with("b")]).await.unwrap();
        assert_eq!(runs.iter().map(|run| run.id()).collect::<Vec<_>>(), ["a", "a", "b"]);
        client.start(parcel_with("a").priority(5)).await.unwrap();
        client.enqueue("parcel", json!({ "word": "a" })).id("a").await.unwrap();
        assert_eq!(rows(&database, "SELECT workflow_id, priority FROM workflows ORDER BY submission").await, ["a|0", "b|0"]);
        let (runtime, probe) = begin(&database).await;
        runs[0].result().await.unwrap();
        runs[2].result().await.unwrap();
        // Also once it has ended.
        assert_eq!(client.start(parcel_with("a")).await.unwrap().result().await.unwrap(), "a");
        let mut notes = probe.notes();
        notes.sort();
        assert_eq!(notes, ["a", "b"]);
        runtime.shutdown().await;
    }

    async fn the_same_id_for_something_else_is_refused(database: Database) {
        let client = client_of(&database).await;
        client.start(parcel_with("a")).await.unwrap();
        let other = client.start(parcel::start("other".to_owned()).id("a")).await.unwrap_err();
        let by_name = client.enqueue("parcel", json!({ "word": "b" })).id("a").await.unwrap_err();
        let name = client.enqueue("something else", json!({ "word": "a" })).id("a").await.unwrap_err();
        for error in [other, by_name, name] {
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
            assert!(error.to_string().contains("`a`"), "{error}");
        }
        let error = client.start_many([parcel_with("x"), parcel::start("y".to_owned()).id("x")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(left(&database).await[0], "2");
    }

    async fn hostile_text_is_stored_as_it_is(database: Database) {
        let client = client_of(&database).await;
        for (n, text) in hostile().iter().enumerate() {
            client.set_queue(text, QueueLimits::new().concurrency(3)).await.unwrap();
            let all = |start: Enqueue| start.queue(text).dedup_key(text).partition_key(text).tags([text, "t"]);
            let id = all(client.enqueue(text, json!({ "word": text })).id(text)).await.unwrap();
            assert_eq!(id, *text);
            // A name of another length, for whoever compares by prefix.
            all(client.enqueue(format!("n{n}"), json!({})).id(format!("n{n}"))).after_all([text]).await.unwrap();
            client.pause_queue(text).await.unwrap();
            let info = client.queue(text).await.unwrap().unwrap();
            assert_eq!((info.name, info.paused, info.pending + info.waiting), (text.clone(), true, 2));
            let text = text.replace('\'', "''");
            let same = format!("SELECT count(*) FROM workflows w JOIN workflow_dependencies d ON d.prerequisite_id = w.workflow_id
                WHERE w.workflow_id = '{text}' AND w.name = w.workflow_id AND w.queue = w.name AND w.dedup_key = w.name
                AND w.partition_key = w.name");
            assert_eq!(rows(&database, &same).await, ["1"], "{text}");
            if database.store() == Store::Postgres {
                let tag = format!("SELECT count(*) FROM workflows WHERE tags = ARRAY['{text}', 't']");
                assert_eq!(rows(&database, &tag).await, ["2"], "{text}");
            }
        }
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows").await, [(2 * hostile().len()).to_string()]);
    }

    async fn text_that_can_not_be_a_key_is_refused_and_nothing_is_recorded(database: Database) {
        let client = client_of(&database).await;
        let queues = client.queues().await.unwrap().len();
        for text in refused() {
            let ready = || client.enqueue("parcel", json!({ "word": "x" }));
            let shown = text.chars().take(20).collect::<String>();
            let wrong: [(ErrorKind, Enqueue); 7] = [
                (ErrorKind::InvalidId, ready().id(&text)),
                (ErrorKind::InvalidOption, ready().queue(&text)),
                (ErrorKind::InvalidOption, ready().dedup_key(&text)),
                (ErrorKind::InvalidOption, ready().partition_key(&text)),
                (ErrorKind::InvalidOption, ready().tags(["fine", &text])),
                (ErrorKind::InvalidOption, client.enqueue(&text, json!({}))),
                (ErrorKind::InvalidId, ready().after([&text as &dyn RunId])),
            ];
            for (n, (kind, wrong)) in wrong.into_iter().enumerate() {
                let error = wrong.await.unwrap_err();
                assert_eq!(error.kind(), kind, "{n} {shown:?}: {error}");
                assert!(error.to_string().len() < 600 && !error.to_string().contains(['\0', '\n']), "{n} {shown:?}: {error}");
            }
            assert_eq!(client.set_queue(&text, QueueLimits::new()).await.unwrap_err().kind(), ErrorKind::InvalidOption, "{shown:?}");
            assert_eq!(client.pause_queue(&text).await.unwrap_err().kind(), ErrorKind::InvalidOption, "{shown:?}");
            assert_eq!(client.queue(&text).await.unwrap(), None);
            let error = quick(&database, &Probe::default()).queues([&text]).client().await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::InvalidOption | ErrorKind::Configuration), "{shown:?}: {error}");
        }
        assert_eq!(left(&database).await, ["0", "0", "0"]);
        assert_eq!(client.queues().await.unwrap().len(), queues);
    }

    async fn an_input_keeps_every_character(database: Database) {
        let (runtime, _) = begin(&database).await;
        let client = client_of(&database).await;
        for (n, word) in hostile().into_iter().chain(refused()).enumerate() {
            let typed = client.start(parcel::start(word.clone()).id(format!("t{n}"))).await.unwrap();
            let named = client.enqueue("parcel", json!({ "word": word })).await.unwrap();
            assert_eq!(typed.result().await.unwrap(), word);
            assert_eq!(client.handle::<parcel>(named).result().await.unwrap(), word);
        }
        runtime.shutdown().await;
    }

    async fn a_workflow_of_any_name_is_claimed_from_a_queue_of_any_name(database: Database) {
        let (runtime, _) = begin(&database).await;
        let run = runtime.enter(async { odd_parcel::start("x".to_owned()).await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap(), "x");
        runtime.shutdown().await;
    }

    async fn inputs_that_are_no_object_and_too_many_tags_are_refused(database: Database) {
        let client = quick(&database, &Probe::default()).payload_max(1_000).client().await.unwrap();
        for input in [json!(null), json!([1]), json!("x"), json!(1), json!({ "word": "x".repeat(1_001) })] {
            assert_eq!(client.enqueue("parcel", input).await.unwrap_err().kind(), ErrorKind::InvalidPayload);
        }
        let tagged = |count: usize| parcel::start(String::new()).tags((0..count).map(|n| n.to_string()));
        assert_eq!(client.start(tagged(101)).await.unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(client.enqueue("parcel", json!({})).version(u32::MAX).await.unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(left(&database).await, ["0", "0", "0"]);
        client.start(tagged(100)).await.unwrap();
    }

    async fn due_times_that_no_database_can_tell_are_refused(database: Database) {
        let client = client_of(&database).await;
        let ready = || client.enqueue("parcel", json!({ "word": "x" }));
        let far = UNIX_EPOCH + Duration::from_secs(300_000_000_000);
        let wrong = [ready().delay(Duration::MAX), ready().delay(Duration::from_secs(u64::MAX / 1_000_000)), ready().at(far),
            ready().at(UNIX_EPOCH + Duration::from_secs(i64::MAX as u64)), ready().delay(Duration::ZERO).at(UNIX_EPOCH)];
        for wrong in wrong {
            assert_eq!(wrong.await.unwrap_err().kind(), ErrorKind::InvalidOption);
        }
        assert_eq!(left(&database).await, ["0", "0", "0"]);
        // The longest that may be does not disturb an executor.
        let longest = client.start(parcel_with("longest").delay(Duration::from_secs(1_000 * 366 * 86_400))).await.unwrap();
        let last = client.start(parcel_with("last").at(UNIX_EPOCH + Duration::from_secs(253_402_300_799))).await.unwrap();
        let past = client.start(parcel_with("past").at(UNIX_EPOCH - Duration::from_secs(9))).await.unwrap();
        let (runtime, _) = begin(&database).await;
        past.result().await.unwrap();
        runtime.recover().await.unwrap();
        assert_eq!(longest.status().await.unwrap(), WorkflowStatus::Waiting);
        assert_eq!(last.status().await.unwrap(), WorkflowStatus::Waiting);
        runtime.shutdown().await;
    }
}

/// A runtime that looks by itself only every ten seconds, and a session beside it.
async fn with_sql(database: &Database, probe: &Probe) -> (durable::Runtime, PgConnection) {
    let patient = quick(database, probe)
        .heartbeat(Duration::from_secs(10))
        .grace(Duration::from_secs(20))
        .lease(Duration::from_secs(40));
    (patient.build().await.unwrap(), PgConnection::connect(database.direct_url()).await.unwrap())
}

#[test]
fn sql_enqueues_with_every_option_when_its_transaction_commits() {
    durable_tests::run::postgres(sql_enqueues);
}

async fn sql_enqueues(database: Database) {
    let probe = Probe::default();
    let (runtime, mut sql) = with_sql(&database, &probe).await;
    runtime.client().set_queue("q", QueueLimits::new()).await.unwrap();
    let mut undone = sql.begin().await.unwrap();
    undone.execute(r#"SELECT durable.enqueue('parcel', '{"word": "undone"}', 'undone')"#).await.unwrap();
    undone.rollback().await.unwrap();
    assert_eq!(left(&database).await, ["0", "0", "0"]);
    // The wake-up is what starts it, well before the next heartbeat.
    let mut tx = sql.begin().await.unwrap();
    tx.execute(r#"SELECT durable.enqueue('parcel', '{"word": "a"}', 'a')"#).await.unwrap();
    tx.commit().await.unwrap();
    let begun = Instant::now();
    assert_eq!(runtime.client().handle::<parcel>("a").result().await.unwrap(), "a");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let id: String = sqlx::query(
        r#"SELECT durable.enqueue('parcel', input => '{"word": "b"}', workflow_id => 'b', queue => 'q', priority => -2,
           delay => interval '300 milliseconds', dedup_key => 'd', partition_key => 'p', tags => ARRAY['it''s', '{x}'], after => ARRAY['a'],
           after_ended => ARRAY['a'], version => 1)"#,
    ).fetch_one(&mut sql).await.unwrap().get(0);
    assert_eq!(id, "b");
    let begun = Instant::now();
    let row = "SELECT queue, priority, dedup_key, partition_key, tags[1], tags[2], status FROM workflows WHERE workflow_id = 'b'";
    assert_eq!(rows(&database, row).await, ["q|-2|d|p|it's|{x}|waiting"]);
    let taken = r#"SELECT durable.enqueue('parcel', '{"word": "c"}', dedup_key => 'd')"#;
    assert_eq!(rows(&database, taken).await, ["b"]);
    assert_eq!(runtime.client().handle::<parcel>("b").result().await.unwrap(), "b");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // Queue and version are those that the program has for the name.
    let name = "its 'name'; -- \\ 이";
    let id: String = sqlx::query(r#"SELECT durable.enqueue($1, '{"word": "d"}')"#)
        .bind(name)
        .fetch_one(&mut sql)
        .await
        .unwrap()
        .get(0);
    assert_eq!(runtime.client().handle::<odd_parcel>(&id).result().await.unwrap(), "d");
    // The same once more is the same run.
    for _ in 0..2 {
        assert_eq!(rows(&database, r#"SELECT durable.enqueue('parcel', '{"word": "a"}', 'a')"#).await, ["a"]);
    }
    assert_eq!(left(&database).await[0], "3");
    runtime.shutdown().await;
}

#[test]
fn sql_that_can_not_be_followed_is_refused_with_a_state_of_its_own() {
    durable_tests::run::postgres(sql_refuses);
}

async fn sql_refuses(database: Database) {
    let probe = Probe::default();
    let (runtime, mut sql) = with_sql(&database, &probe).await;
    execute(&database, r#"SELECT durable.enqueue('parcel', '{"word": "a"}', 'a')"#).await;
    becomes(&runtime.client().handle::<parcel>("a"), WorkflowStatus::Done).await;
    let before = left(&database).await;
    let wrong = [
        ("NULL", "DU400"),
        ("''", "DU400"),
        ("' '", "DU400"),
        ("repeat('x', 513)", "DU400"),
        ("E'a\\nb'", "DU400"),
        ("U&'a\\0085'", "DU400"),
        ("U&'\\3000'", "DU400"),
        ("'parcel', NULL", "DU400"),
        ("'parcel', '[]'", "DU400"),
        ("'parcel', '1'", "DU400"),
        ("'parcel', workflow_id => ''", "DU400"),
        ("'parcel', workflow_id => E'\\t'", "DU400"),
        ("'parcel', dedup_key => ''", "DU400"),
        ("'parcel', partition_key => repeat('é', 257)", "DU400"),
        ("'parcel', tags => ARRAY['a', '']", "DU400"),
        ("'parcel', tags => ARRAY['a', NULL]", "DU400"),
        ("'parcel', tags => array_fill('t'::text, ARRAY[101])", "DU400"),
        ("'parcel', queue => 'nobody''s'", "DU404"),
        ("'parcel', queue => ''", "DU404"),
        ("'parcel', after => ARRAY['nobody']", "DU404"),
        ("'parcel', after_ended => ARRAY[NULL]", "DU400"),
        ("'parcel', workflow_id => 'x', after => ARRAY['x']", "DU400"),
        ("'parcel', delay => interval '-1 second'", "DU400"),
        ("'parcel', delay => interval '1 day', run_at => now()", "DU400"),
        ("'parcel', delay => interval '100000 years'", "DU400"),
        ("'parcel', run_at => 'infinity'", "DU400"),
        ("'parcel', run_at => '20000-01-01'", "DU400"),
        ("'parcel', version => -1", "DU400"),
        ("'parcel', '{\"word\": \"other\"}', 'a'", "DU409"),
        ("'another', '{\"word\": \"a\"}', 'a'", "DU409"),
    ];
    let mut surprises = Vec::new();
    for (arguments, state) in wrong {
        let said =
            sqlx::raw_sql(sqlx::AssertSqlSafe(format!("SELECT durable.enqueue({arguments})"))).execute(&mut sql).await;
        let code = said.err().and_then(|error| error.as_database_error()?.code().map(Cow::into_owned));
        if code.as_deref() != Some(state) {
            surprises.push((arguments, code));
        }
    }
    assert!(surprises.is_empty(), "{surprises:#?}");
    assert_eq!(left(&database).await, before);
    // Nor does a time that was written by hand and never comes stop an executor.
    runtime.client().start(parcel_with("never").delay(Duration::from_secs(3600))).await.unwrap();
    execute(&database, "UPDATE workflows SET wake_at = 'infinity' WHERE workflow_id = 'never'").await;
    let id =
        rows(&database, r#"SELECT durable.enqueue('parcel', '{"word": "b"}', run_at => '-infinity')"#).await.remove(0);
    assert_eq!(runtime.client().handle::<parcel>(id).result().await.unwrap(), "b");
    runtime.recover().await.unwrap();
    runtime.shutdown().await;
}

/// As on a busy table: time passes between the insert that finds the key taken and the look at who has it.
#[test]
fn a_dedup_key_that_is_freed_while_sql_enqueues_is_taken() {
    durable_tests::run::postgres(freed_key);
}

async fn freed_key(database: Database) {
    let _client = quick(&database, &Probe::default()).client().await.unwrap();
    execute(
        &database,
        "CREATE FUNCTION durable.pause() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END$$;
         CREATE TRIGGER pause AFTER INSERT ON durable.workflows FOR EACH STATEMENT EXECUTE FUNCTION durable.pause();
         SELECT durable.enqueue('any', workflow_id => 'first', dedup_key => 'k')",
    )
    .await;
    let second = "SELECT durable.enqueue('any', workflow_id => 'second', dedup_key => 'k')";
    let end = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        execute(&database, "UPDATE workflows SET status = 'done', completed_at = now() WHERE workflow_id = 'first'")
            .await;
    };
    let (answer, ()) = tokio::join!(rows(&database, second), end);
    assert_eq!(answer, ["second"]);
    assert_eq!(rows(&database, "SELECT workflow_id FROM workflows WHERE status = 'pending'").await, ["second"]);
}

/// An application's own transaction has a dedup key and does not end.
#[test]
fn a_start_that_waits_for_an_open_transaction_holds_up_no_other() {
    durable_tests::run::postgres(held_up);
}

async fn held_up(database: Database) {
    let client = quick(&database, &Probe::default()).client().await.unwrap();
    let mut holder = PgConnection::connect(database.direct_url()).await.unwrap();
    let sql = "BEGIN; SELECT durable.enqueue('parcel', dedup_key => 'k', workflow_id => 'first')";
    sqlx::raw_sql(sql).execute(&mut holder).await.unwrap();
    let waits = client.start(parcel::start("waits".to_owned()).id("waits").dedup_key("k"));
    let goes_on = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        for n in 0..5 {
            client.start(parcel::start("goes on".to_owned()).id(format!("goes on {n}"))).await.unwrap();
        }
        sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    };
    let both = async { tokio::join!(waits, goes_on) };
    // Nobody waits for the transaction but who wants its key.
    let (run, ()) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
    assert_eq!(run.unwrap().id(), "first");
}

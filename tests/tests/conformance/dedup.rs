//! Dedup keys: one unfinished run for each key of a workflow, whoever asks at once.

use std::collections::BTreeSet;

use durable::{ErrorKind, OnDuplicate, QueueLimits, Requeue, WorkflowStatus, workflow};
use durable_tests::everywhere;
use futures_util::future::join_all;

use crate::support::{Probe, becomes, begin, execute, probe, quick, rows};

#[workflow]
async fn sole(word: String) -> String {
    probe().hit("sole");
    probe().gate("sole gate").await;
    word
}

#[workflow]
async fn sole_too(word: String) -> String {
    word
}

everywhere! {
    async fn a_start_with_a_taken_key_is_the_run_that_has_it(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let client = runtime.client();
        let first = client.start(sole::start("first".to_owned()).id("a").dedup_key("k")).await.unwrap();
        // Whatever its input, its id and its state.
        let second = client.start(sole::start("second".to_owned()).id("b").dedup_key("k")).await.unwrap();
        becomes(&first, WorkflowStatus::Running).await;
        let third = runtime.enter(async { sole::start("third".to_owned()).dedup_key("k").await.unwrap() }).await;
        assert_eq!((second.id(), third.id()), ("a", "a"));
        assert_eq!(rows(&database, "SELECT workflow_id, dedup_key FROM workflows").await, ["a|k"]);
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflow_payloads WHERE part = 'input'").await, ["a"]);
        probe.open("sole gate");
        assert_eq!(second.result().await.unwrap(), "first");
        assert_eq!(third.result().await.unwrap(), "first");
        assert_eq!(probe.hits("sole"), 1);
        runtime.shutdown().await;
    }

    async fn a_start_that_rejects_duplicates_names_the_run_that_has_the_key(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let start = |id: &str| sole::start(id.to_owned()).id(id).dedup_key("k").on_duplicate(OnDuplicate::Reject);
        client.start(start("a")).await.unwrap();
        let error = client.start(start("b")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Duplicate);
        assert!(error.to_string().contains("`a`") && error.to_string().contains("`k`"), "{error}");
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflows").await, ["a"]);
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflow_payloads").await, ["a"]);
        // The same start once more is the same run, and no duplicate of itself.
        assert_eq!(client.start(start("a")).await.unwrap().id(), "a");
        let by_name = client.enqueue("sole", serde_json::json!({ "word": "c" })).dedup_key("k");
        assert_eq!(by_name.on_duplicate(OnDuplicate::Reject).await.unwrap_err().kind(), ErrorKind::Duplicate);
    }

    async fn fifty_callers_of_two_clients_make_one_run(database: Database) {
        let probe = Probe::default();
        let (one, two) = (quick(&database, &probe).client().await.unwrap(), quick(&database, &probe).client().await.unwrap());
        for round in 0..5 {
            let calls = (0..50).map(|n| {
                let client = if n % 2 == 0 { &one } else { &two };
                client.start(sole::start(n.to_string()).id(format!("{round}-{n}")).dedup_key(round.to_string()))
            });
            let ids: BTreeSet<String> = join_all(calls).await.into_iter().map(|run| run.unwrap().id().to_owned()).collect();
            assert_eq!(ids.len(), 1, "{ids:?}");
            assert_eq!(rows(&database, &format!("SELECT workflow_id FROM workflows WHERE dedup_key = '{round}'")).await,
                Vec::from_iter(ids));
        }
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_payloads").await, ["5"]);
    }

    async fn a_key_is_free_again_once_its_run_has_ended(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let client = runtime.client();
        let start = |id: &str| sole::start(id.to_owned()).id(id).dedup_key("k").on_duplicate(OnDuplicate::Reject);
        let done = client.start(start("done")).await.unwrap();
        probe.open("sole gate");
        done.result().await.unwrap();
        probe.close("sole gate");
        let cancelled = client.start(start("cancelled")).await.unwrap();
        assert_eq!(client.start(start("x")).await.unwrap_err().kind(), ErrorKind::Duplicate);
        cancelled.cancel().await.unwrap();
        let waiting = client.start(start("waiting").delay(std::time::Duration::from_secs(3600))).await.unwrap();
        assert_eq!(client.start(start("x")).await.unwrap_err().kind(), ErrorKind::Duplicate);
        waiting.cancel().await.unwrap();
        client.start(start("last")).await.unwrap();
        // Removed by hand, it holds nothing either.
        execute(&database, "DELETE FROM workflows WHERE workflow_id = 'last'").await;
        client.start(start("after the last")).await.unwrap();
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflows ORDER BY submission").await,
            ["done", "cancelled", "waiting", "after the last"]);
        probe.open("sole gate");
        runtime.shutdown().await;
    }

    async fn a_cancelled_run_whose_key_is_taken_can_not_be_resumed(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let first = client.start(sole::start("first".to_owned()).id("first").dedup_key("k")).await.unwrap();
        first.cancel().await.unwrap();
        let second = client.start(sole::start("second".to_owned()).id("second").dedup_key("k")).await.unwrap();
        let before = rows(&database, "SELECT * FROM workflows ORDER BY submission").await;
        assert_eq!(first.resume().await.unwrap_err().kind(), ErrorKind::Duplicate);
        assert_eq!(client.requeue(Requeue::id("first")).await.unwrap_err().kind(), ErrorKind::Duplicate);
        assert_eq!(client.requeue(Requeue::cancelled()).await.unwrap(), 0);
        assert_eq!(rows(&database, "SELECT * FROM workflows ORDER BY submission").await, before);
        second.cancel().await.unwrap();
        first.resume().await.unwrap();
        assert_eq!(second.resume().await.unwrap_err().kind(), ErrorKind::Duplicate);
        assert_eq!(first.status().await.unwrap(), WorkflowStatus::Pending);
    }

    async fn a_key_belongs_to_one_workflow(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        client.set_queue("q", QueueLimits::new()).await.unwrap();
        client.start(sole::start(String::new()).id("a").dedup_key("k")).await.unwrap();
        client.start(sole_too::start(String::new()).id("b").dedup_key("k").on_duplicate(OnDuplicate::Reject)).await.unwrap();
        // And it is one key in every queue and version.
        let elsewhere = client.enqueue("sole", serde_json::json!({})).queue("q").version(7).partition_key("p").dedup_key("k");
        assert_eq!(elsewhere.await.unwrap(), "a");
        assert_eq!(rows(&database, "SELECT workflow_id FROM workflows ORDER BY submission").await, ["a", "b"]);
    }

    async fn a_key_twice_in_one_batch_is_one_run(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        let start = |id: &str, key: &str| sole::start(id.to_owned()).id(id).dedup_key(key);
        let runs = client.start_many([start("a", "k"), start("b", "k"), start("c", "l"), start("d", "l")]).await.unwrap();
        assert_eq!(runs.iter().map(|run| run.id()).collect::<Vec<_>>(), ["a", "a", "c", "c"]);
        let rejects = start("f", "m").on_duplicate(OnDuplicate::Reject);
        let error = client.start_many([start("e", "m"), rejects, start("g", "n")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Duplicate);
        // What is no duplicate is recorded all the same.
        let all = "SELECT w.workflow_id, p.workflow_id FROM workflows w JOIN workflow_payloads p ON p.workflow_id = w.workflow_id
                   ORDER BY submission";
        assert_eq!(rows(&database, all).await, ["a|a", "c|c", "e|e", "g|g"]);
    }

    async fn the_input_is_that_of_the_row_that_was_recorded(database: Database) {
        let client = quick(&database, &Probe::default()).client().await.unwrap();
        client.start(sole::start("holder".to_owned()).id("holder").dedup_key("k")).await.unwrap();
        // The first is left out for its key, the second has the same id and is new.
        let left_out = sole::start("wrong".to_owned()).id("x").dedup_key("k");
        let _ = client.start_many([left_out, sole::start("right".to_owned()).id("x")]).await;
        let input = "SELECT count(*) FROM workflow_payloads WHERE workflow_id = 'x' AND CAST(payload AS text) LIKE '%right%'";
        assert_eq!(rows(&database, input).await, ["1"]);
    }
}

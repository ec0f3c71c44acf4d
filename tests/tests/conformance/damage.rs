//! Rows damaged by hand: they block their own workflow, with what, where and what to do, and no other.

use durable::{ErrorKind, WorkflowStatus, step, workflow};
use durable_tests::{Database, everywhere};
use serde::{Deserialize, Serialize};

use crate::support::{becomes, begin, crash_and_recover, execute, insert_pending, probe, reach, recovered, rows};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
}

#[step]
async fn fetch() -> Order {
    probe().hit("fetch");
    Order { number: 7 }
}

#[step]
async fn hold() {
    probe().gate("hold").await;
}

#[workflow]
async fn order(count: u32) -> u32 {
    let order = fetch().await;
    hold().await;
    order.number + count
}

/// Two runs that wait after a recorded step; the first is then damaged, and both are recovered.
async fn damaged(database: &Database, sql: &str) -> (durable::Runtime, crate::support::Probe, String) {
    let (runtime, probe) = begin(database).await;
    runtime
        .enter(async {
            order::start(1).id("bad").await.unwrap();
            order::start(1).id("good").await.unwrap();
        })
        .await;
    probe.reached("hold", 2).await;
    drop(runtime);
    execute(database, sql).await;
    let next = recovered(database, &probe).await;
    becomes(&reach::<order>(&next, "bad").await, WorkflowStatus::Blocked).await;
    probe.open("hold");
    assert_eq!(reach::<order>(&next, "good").await.result().await.unwrap(), 8);
    assert_eq!(probe.hits("fetch"), 2, "nothing ran again");
    let text = rows(database, "SELECT error_message FROM workflows WHERE workflow_id = 'bad'").await.remove(0);
    assert_eq!(reach::<order>(&next, "bad").await.result().await.unwrap_err().kind(), ErrorKind::Blocked);
    (next, probe, text)
}

const FETCH_OF_BAD: &str = "WHERE workflow_id = 'bad' AND step_name = 'fetch'";

everywhere! {
    async fn an_output_of_another_type_blocks_and_goes_on_after_a_repair(database: Database) {
        let sql = format!(r#"UPDATE workflow_steps SET output = '{{"count": 7}}' {FETCH_OF_BAD}"#);
        let (next, probe, text) = damaged(&database, &sql).await;
        assert!(text.contains("step `fetch` at step 0") && text.contains("missing field `number`"), "{text}");
        assert!(text.contains("repair the row, then resume the workflow"), "{text}");
        execute(&database, &format!(r#"UPDATE workflow_steps SET output = '{{"number": 8}}' {FETCH_OF_BAD}"#)).await;
        let run = reach::<order>(&next, "bad").await;
        run.resume().await.unwrap();
        assert_eq!(run.result().await.unwrap(), 9);
        assert_eq!(probe.hits("fetch"), 2);
    }

    async fn a_codec_that_nobody_knows_blocks(database: Database) {
        let (_next, _probe, text) = damaged(&database, &format!("UPDATE workflow_steps SET codec = 99 {FETCH_OF_BAD}")).await;
        assert!(text.contains("`fetch` at step 0") && text.contains("99"), "{text}");
    }

    async fn an_output_that_is_gone_blocks(database: Database) {
        let (_next, _probe, text) = damaged(&database, &format!("UPDATE workflow_steps SET output = NULL {FETCH_OF_BAD}")).await;
        assert!(text.contains("`fetch` at step 0") && text.contains("neither text nor bytes"), "{text}");
        assert!(text.contains("repair the row in workflow_steps"), "{text}");
    }

    async fn an_error_encoding_that_nobody_knows_blocks(database: Database) {
        let sql = format!("UPDATE workflow_steps SET status = 'error', error_encoding = 'runes' {FETCH_OF_BAD}");
        let (_next, _probe, text) = damaged(&database, &sql).await;
        assert!(text.contains("`fetch` at step 0") && text.contains("runes"), "{text}");
    }

    async fn an_input_that_no_longer_decodes_blocks_and_goes_on_after_a_repair(database: Database) {
        let (runtime, probe) = begin(&database).await;
        insert_pending(&database, "bad", "order", Some(r#"{"count": "many"}"#)).await;
        insert_pending(&database, "good", "order", Some(r#"{"count": 1}"#)).await;
        probe.open("hold");
        let next = crash_and_recover(&database, &probe, runtime).await;
        assert_eq!(reach::<order>(&next, "good").await.result().await.unwrap(), 8);
        let run = reach::<order>(&next, "bad").await;
        becomes(&run, WorkflowStatus::Blocked).await;
        let text = rows(&database, "SELECT error_message FROM workflows WHERE workflow_id = 'bad'").await.remove(0);
        assert!(text.contains("its input can't be decoded") && text.contains("count"), "{text}");
        assert!(text.contains("resume"), "{text}");
        assert_eq!(probe.hits("fetch"), 1);
        execute(&database, r#"UPDATE workflow_payloads SET payload = '{"count": 2}' WHERE workflow_id = 'bad'"#).await;
        run.resume().await.unwrap();
        assert_eq!(run.result().await.unwrap(), 9);
    }

    async fn an_input_that_is_gone_blocks(database: Database) {
        let (runtime, probe) = begin(&database).await;
        // Nobody looks while it is damaged.
        runtime.shutdown().await;
        insert_pending(&database, "none", "order", None).await;
        insert_pending(&database, "null", "order", Some("{}")).await;
        insert_pending(&database, "codec", "order", Some(r#"{"count": 2}"#)).await;
        execute(&database, "UPDATE workflow_payloads SET payload = NULL WHERE workflow_id = 'null'").await;
        execute(&database, "UPDATE workflow_payloads SET codec = 77 WHERE workflow_id = 'codec'").await;
        let next = recovered(&database, &probe).await;
        for (id, word) in [("none", "input"), ("null", "input"), ("codec", "77")] {
            let run = reach::<order>(&next, id).await;
            becomes(&run, WorkflowStatus::Blocked).await;
            let text = run.result().await.unwrap_err().to_string();
            assert!(text.contains(word) && text.contains("resume"), "{id}: {text}");
        }
        assert_eq!(probe.hits("fetch"), 0);
    }

    async fn a_damaged_result_is_a_typed_error_of_the_handle(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("hold");
        let run = runtime.enter(async { order::start(1).id("w").await.unwrap() }).await;
        run.result().await.unwrap();
        for damage in ["payload = '\"text\"'", "codec = 99", "payload = NULL"] {
            execute(&database, &format!("UPDATE workflow_payloads SET {damage} WHERE part = 'result'")).await;
            let error = run.result().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Undecodable, "{damage}: {error}");
            assert!(error.to_string().contains("`w`"), "{error}");
        }
        execute(&database, "DELETE FROM workflow_payloads WHERE part = 'result'").await;
        assert_eq!(run.result().await.unwrap_err().kind(), ErrorKind::Undecodable);
        assert_eq!(run.status().await.unwrap(), WorkflowStatus::Done);
    }
}

#[test]
fn text_that_is_no_json_blocks_on_sqlite() {
    // Postgres refuses to store it.
    durable_tests::run::sqlite(async |database| {
        let sql = format!("UPDATE workflow_steps SET output = '{{\"number\": 7' {FETCH_OF_BAD}");
        let (_next, _probe, text) = damaged(&database, &sql).await;
        assert!(text.contains("step `fetch` at step 0") && text.contains("EOF"), "{text}");
    });
}

#[test]
fn bytes_that_are_no_text_block_on_sqlite() {
    durable_tests::run::sqlite(async |database| {
        let sql = format!("UPDATE workflow_steps SET output = CAST(x'22ff22' AS TEXT) {FETCH_OF_BAD}");
        let (_next, _probe, text) = damaged(&database, &sql).await;
        assert!(text.contains("`fetch` at step 0"), "{text}");
    });
}

#[test]
fn an_input_that_is_no_text_blocks_on_sqlite() {
    durable_tests::run::sqlite(async |database| {
        let (runtime, probe) = begin(&database).await;
        // Nobody looks while it is damaged.
        runtime.shutdown().await;
        insert_pending(&database, "bad", "order", Some("{}")).await;
        insert_pending(&database, "good", "order", Some(r#"{"count": 1}"#)).await;
        execute(&database, "UPDATE workflow_payloads SET payload = CAST(x'22ff22' AS TEXT) WHERE workflow_id = 'bad'")
            .await;
        probe.open("hold");
        let next = recovered(&database, &probe).await;
        assert_eq!(reach::<order>(&next, "good").await.result().await.unwrap(), 8);
        let run = reach::<order>(&next, "bad").await;
        becomes(&run, WorkflowStatus::Blocked).await;
        let text = run.result().await.unwrap_err().to_string();
        assert!(text.contains("its input can't be read") && text.contains("then resume the workflow"), "{text}");
    });
}

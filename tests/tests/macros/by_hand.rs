//! What the attributes expand to, written by hand through the same calls into the library, records the same rows.

use std::future::Future;

use durable::__private::{
    Codec, OutcomeCodec, RetryPolicy, StepDef, StepMeta, WorkflowEntry, call, inventory, step as durable_step,
};
use durable::{Builder, Start, StepFuture, Workflow};
use durable_tests::{Database, Store, on_both_stores};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Row, sqlite::SqliteConnectOptions};

mod attribute {
    use std::time::Duration;

    #[durable::step(
        name = "greet",
        retry(max_attempts = 3, initial = "1ms", factor = 2, max = "2ms", when = retryable),
        timeout = "5s"
    )]
    pub(super) async fn greet(name: &str, loud: bool) -> Result<String, String> {
        super::greeting(name, loud)
    }

    #[durable::step(name = "count")]
    pub(super) async fn count(text: String) -> usize {
        tokio::time::sleep(Duration::from_millis(1)).await;
        text.len()
    }

    fn retryable(error: &str) -> bool {
        super::retryable(error)
    }

    #[durable::workflow(name = "by attribute")]
    pub(super) async fn welcome(name: String, loud: bool) -> Result<usize, String> {
        let greeting = greet(&name, loud).await?;
        Ok(count(greeting).await)
    }
}

mod hand {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    pub(super) fn greet(name: &str, loud: bool) -> StepFuture<impl Future<Output = Result<String, String>> + Send> {
        let def = StepDef::<Result<String, String>> {
            meta: StepMeta { name: "greet", file: file!(), line: line!(), column: column!() },
            codec: durable::__outcome!(Result<String, String>, json),
            retry: RetryPolicy {
                max_attempts: 3,
                initial: Duration::from_millis(1),
                factor: 2.0,
                max: Duration::from_millis(2),
                jitter: false,
            },
            when: Some(|outcome| outcome.as_ref().err().is_none_or(|error| retryable(error))),
            timeout: Some(Duration::from_secs(5)),
        };
        durable_step(def, durable::__args_hash!(name, loud), move || Some(async move { greeting(name, loud) }))
    }

    #[track_caller]
    pub(super) fn count(text: String) -> StepFuture<impl Future<Output = usize> + Send> {
        let def = StepDef::<usize> {
            meta: StepMeta { name: "count", file: file!(), line: line!(), column: column!() },
            codec: durable::__outcome!(usize, json),
            retry: RetryPolicy::NONE,
            when: None,
            timeout: None,
        };
        let hash = durable::__args_hash!(text);
        let mut once = Some(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            text.len()
        });
        durable_step(def, hash, move || once.take())
    }

    #[track_caller]
    pub(super) fn welcome(name: String, loud: bool) -> impl Future<Output = Result<usize, String>> + Send + 'static {
        call::<Welcome>(Input { name, loud })
    }

    pub(super) struct Welcome;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Input {
        name: String,
        loud: bool,
    }

    impl Welcome {
        pub(super) fn start(name: String, loud: bool) -> Start<Self> {
            Start::new(Input { name, loud })
        }
    }

    impl Workflow for Welcome {
        const NAME: &'static str = "by hand";
        const VERSION: u32 = 1;
        type Input = Input;
        type Output = Result<usize, String>;

        async fn body(Input { name, loud }: Input) -> Self::Output {
            let greeting = greet(&name, loud).await?;
            Ok(count(greeting).await)
        }

        fn outcome() -> OutcomeCodec<Self::Output> {
            durable::__outcome!(Result<usize, String>, json)
        }

        fn codec() -> Codec {
            Codec::Json
        }
    }

    inventory::submit! { WorkflowEntry::new::<Welcome>(file!(), line!()) }
}

/// Fails twice for everybody who is not Ada, and for good for Eve.
fn greeting(name: &str, loud: bool) -> Result<String, String> {
    match name {
        "Eve" => Err("not for Eve".to_owned()),
        "Bob" => Err("busy".to_owned()),
        name => Ok(if loud { name.to_uppercase() } else { format!("hello {name}") }),
    }
}

fn retryable(error: &str) -> bool {
    error == "busy"
}

/// Everything that is recorded but identities, times and places.
const RECORDED: [&str; 3] = [
    "SELECT status, version, reason, epoch, attempts, recoveries, queue, priority, error_message FROM workflows WHERE workflow_id LIKE '{}%' ORDER BY submission",
    "SELECT w.submission - (SELECT min(submission) FROM workflows WHERE workflow_id LIKE '{}%'), s.branch, s.step_index, s.seq, s.kind, s.step_name, s.status, s.codec, s.error_encoding, s.output, s.error_message, s.args_hash, s.attempts, s.epoch
     FROM workflow_steps s JOIN workflows w USING (workflow_id) WHERE workflow_id LIKE '{}%' ORDER BY w.submission, s.seq",
    "SELECT p.part, p.codec, p.error_encoding, p.payload FROM workflow_payloads p JOIN workflows w USING (workflow_id)
     WHERE workflow_id LIKE '{}%' ORDER BY w.submission, p.part",
];

async fn recorded(database: &Database, prefix: &str) -> Vec<String> {
    let sql = RECORDED.map(|sql| sql.replace("{}", prefix));
    let attempts = format!(
        "SELECT step_name, attempt, status, error_message FROM workflow_step_attempts WHERE workflow_id LIKE '{prefix}%' ORDER BY attempt"
    );
    let mut lines = Vec::new();
    match database.store() {
        Store::Sqlite => {
            let options: SqliteConnectOptions = database.url().parse().unwrap();
            let mut connection = options.connect().await.unwrap();
            for sql in sql.iter().chain([&attempts]) {
                let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql.clone()))).await.unwrap();
                lines.extend(rows.iter().map(|row| line(row.len(), |at| row.try_get_unchecked(at).unwrap())));
            }
        }
        Store::Postgres => {
            let mut connection = PgConnection::connect(database.url()).await.unwrap();
            connection.execute("SET search_path = durable").await.unwrap();
            for sql in sql.iter().chain([&attempts]) {
                let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql.clone()))).await.unwrap();
                lines.extend(rows.iter().map(|row| line(row.len(), |at| row.try_get_unchecked(at).unwrap())));
            }
        }
    }
    lines
}

fn line(columns: usize, value: impl Fn(usize) -> Option<String>) -> String {
    (0..columns).map(|at| value(at).unwrap_or_else(|| "-".to_owned())).collect::<Vec<_>>().join("|")
}

on_both_stores! {
    async fn an_attribute_and_its_equivalent_by_hand_record_the_same_rows(database: Database) {
        let runtime = Builder::new().url(database.url()).build().await.unwrap();
        runtime.enter(async {
            for (name, loud) in [("Ada", false), ("Ada", true), ("Bob", false), ("Eve", false)] {
                let id = format!("{name}{loud}");
                let attribute = attribute::welcome::start(name.to_owned(), loud).id(format!("a-{id}")).await.unwrap();
                let hand = hand::Welcome::start(name.to_owned(), loud).id(format!("h-{id}")).await.unwrap();
                assert_eq!(attribute.result().await.unwrap(), hand.result().await.unwrap());
            }
            assert_eq!(attribute::welcome("Ada".to_owned(), true).await, hand::welcome("Ada".to_owned(), true).await);
        }).await;
        let attribute = recorded(&database, "a-").await;
        assert_eq!(attribute, recorded(&database, "h-").await);
        // Four workflows with their inputs and results, two of them with a second step, one with two attempts more.
        assert_eq!(attribute.len(), 4 + 6 + 8 + 2, "{attribute:#?}");
        assert!(attribute.iter().any(|line| line.contains("|greet|error|") && line.contains("|busy|")), "{attribute:#?}");
        runtime.shutdown().await;
    }
}

//! A step's outcome is recorded once, and its body never runs again after that.

use std::collections::BTreeMap;

use durable::{step, workflow};
use durable_tests::everywhere;
use serde::{Deserialize, Serialize};

use crate::support::{begin, crash_and_recover, probe, reach, rows};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: u64,
    lines: BTreeMap<String, Vec<i64>>,
    note: Option<String>,
}

#[step]
async fn buy(what: &str, count: usize) -> Receipt {
    probe().hit(format!("buy {what}"));
    let lines = BTreeMap::from([(what.to_owned(), vec![1; count])]);
    Receipt { number: u64::MAX, lines, note: None }
}

#[step]
async fn nothing() {
    probe().hit("nothing");
}

#[step]
async fn maybe(some: bool) -> Option<u32> {
    probe().hit("maybe");
    some.then_some(7)
}

#[step]
async fn hold() {
    probe().gate("hold").await;
}

#[workflow]
async fn shopping(what: String) -> (Receipt, Option<u32>, Option<u32>) {
    let receipt = buy(&what, 3).await;
    nothing().await;
    let (some, none) = (maybe(true).await, maybe(false).await);
    probe().note(format!("{receipt:?} {some:?} {none:?}"));
    hold().await;
    (receipt, some, none)
}

struct Shop(&'static str);

impl Shop {
    #[step(name = "shop.order")]
    async fn order(&self, what: &str) -> Result<String, String> {
        probe().hit("order");
        Ok(format!("{what} from {}", self.0))
    }
}

#[workflow]
async fn by_method(what: String) -> Result<String, String> {
    let shop = Shop("the corner");
    let ordered = shop.order(&what).await?;
    hold().await;
    Ok(ordered)
}

everywhere! {
    async fn a_recorded_step_never_runs_again_and_gives_the_same_value(database: Database) {
        let (mut runtime, probe) = begin(&database).await;
        runtime.enter(async { shopping::start("tea".to_owned()).id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        for crash in 2..=4 {
            runtime = crash_and_recover(&database, &probe, runtime).await;
            probe.reached("hold", crash).await;
        }
        probe.open("hold");
        let (receipt, some, none) = reach::<shopping>(&runtime, "w").await.result().await.unwrap();
        assert_eq!((receipt.number, some, none), (u64::MAX, Some(7), None));
        assert_eq!((probe.hits("buy tea"), probe.hits("nothing"), probe.hits("maybe")), (1, 1, 2));
        let notes = probe.notes();
        assert_eq!(notes.len(), 4);
        assert!(notes.iter().all(|note| *note == notes[0]), "{notes:?}");
        assert_eq!(rows(&database, "SELECT branch, step_index, seq, kind, step_name, status, attempts, epoch FROM workflow_steps ORDER BY seq").await, [
            "|0|1|step|buy|done|1|1",
            "|1|2|step|nothing|done|1|1",
            "|2|3|step|maybe|done|1|1",
            "|3|4|step|maybe|done|1|1",
            "|4|5|step|hold|done|1|4",
        ]);
    }

    async fn a_row_names_the_call_and_the_definition(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("hold");
        let run = runtime.enter(async { by_method::start("tea".to_owned()).id("w").await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap().unwrap(), "tea from the corner");
        let row = rows(&database, "SELECT step_name, call_site, definition_site, output FROM workflow_steps WHERE step_index = 0").await;
        let fields: Vec<_> = row[0].split('|').collect();
        assert_eq!((fields[0], fields[3]), ("shop.order", r#""tea from the corner""#));
        for site in &fields[1..3] {
            let (file, line) = site.split_once(':').unwrap();
            assert!(file.ends_with("steps.rs"), "{site}");
            assert!(line.split(':').all(|number| number.parse::<u32>().is_ok()), "{site}");
        }
        assert_ne!(fields[1], fields[2]);
    }

    async fn a_query_over_step_errors_reads_as_documented(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("hold");
        runtime.enter(async { shopping::start("tea".to_owned()).id("w").await.unwrap().result().await.unwrap() }).await;
        let since = match database.store() {
            durable_tests::Store::Postgres => "now() - interval '1 month'",
            durable_tests::Store::Sqlite => "unixepoch('now', '-1 month') * 1000000",
        };
        let sql = format!(
            "SELECT workflow_id, step_name, error_message, completed_at FROM workflow_steps \
             WHERE status = 'done' AND completed_at >= {since} ORDER BY completed_at DESC"
        );
        assert_eq!(rows(&database, &sql).await.len(), 5);
    }
}

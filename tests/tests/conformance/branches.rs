//! Concurrent arms have keys of their own: each step gets its own outcome again, whatever the latencies.

use std::time::Duration;

use durable::{step, workflow};
use durable_tests::everywhere;
use futures_util::future::join_all;

use crate::support::{begin, crash_and_recover, probe, reach, rows, rows_become};

/// Ends after a while that differs between the first run and the replay.
#[step]
async fn stage(chain: char, number: u32) -> String {
    let name = format!("{chain}{number}");
    probe().hit(&name);
    let slow = (chain == 'a') != probe().is_open("reversed");
    tokio::time::sleep(Duration::from_millis(if slow { 15 } else { 1 })).await;
    name
}

async fn chain(chain: char) -> Vec<String> {
    let mut names = Vec::new();
    for number in 0..3 {
        names.push(stage(chain, number).await);
    }
    names
}

#[step]
async fn hold() {
    probe().gate("hold").await;
}

#[workflow]
async fn two_chains() -> (Vec<String>, Vec<String>) {
    let both = durable::join!(chain('a'), chain('b'));
    hold().await;
    both
}

/// As many steps as are in flight at the crash.
#[workflow]
async fn two_chains_cut() -> (Vec<String>, Vec<String>) {
    durable::join!(
        async {
            let mut names = chain('a').await;
            hold().await;
            names.push(stage('a', 3).await);
            names
        },
        async {
            let mut names = chain('b').await;
            names.push(stage('b', 3).await);
            names
        }
    )
}

#[step]
async fn random_wait(item: u32, number: u32) -> String {
    let name = format!("{item}.{number}");
    probe().hit(&name);
    tokio::time::sleep(Duration::from_millis(fastrand::u64(0..8))).await;
    name
}

#[workflow]
async fn many_items(items: u32) -> Vec<Vec<String>> {
    let all = durable::map(0..items, 4, |item| async move {
        let mut names = Vec::new();
        for number in 0..3 {
            names.push(random_wait(item, number).await);
        }
        names
    })
    .await;
    hold().await;
    all
}

#[workflow]
async fn ten_at_once() -> Vec<String> {
    // Built in order, polled together: keys are claimed at the call.
    let plain = join_all((0..5).map(|item| random_wait(item, 0))).await;
    let (a, b, c, d, e) =
        durable::join!(random_wait(5, 0), random_wait(6, 0), random_wait(7, 0), random_wait(8, 0), random_wait(9, 0));
    hold().await;
    plain.into_iter().chain([a, b, c, d, e]).collect()
}

#[step]
async fn fails_after(name: &'static str, gate: &'static str) -> Result<u32, String> {
    probe().hit(name);
    probe().gate(gate).await;
    Err(name.to_owned())
}

#[workflow]
async fn race_of_errors() -> Result<(u32, u32), String> {
    let ended = durable::try_join!(fails_after("left", "left gate"), fails_after("right", "right gate"));
    probe().note(ended.as_ref().unwrap_err());
    hold().await;
    ended
}

#[step]
async fn number(n: u32) -> Result<u32, String> {
    probe().hit("number");
    Ok(n)
}

#[workflow]
async fn all_well() -> Result<u32, String> {
    let (a, b) = durable::try_join!(number(1), async { Ok::<_, String>(number(2).await? + number(3).await?) })?;
    Ok(a + b)
}

#[workflow]
async fn nested() -> u32 {
    let (left, right) = durable::join!(
        async {
            let inner = durable::map([1, 2], 2, |n| async move { number(n).await.unwrap_or(0) }).await;
            inner.iter().sum::<u32>()
        },
        number(5)
    );
    left + right.unwrap_or(0) + number(7).await.unwrap_or(0)
}

#[workflow]
async fn limited(limit: usize) -> Vec<u32> {
    durable::map(0..6, limit, |n| async move {
        narrow(n).await;
        n
    })
    .await
}

#[step]
async fn narrow(n: u32) {
    probe().hit("inside");
    probe().gate(&format!("narrow {n}")).await;
}

everywhere! {
    async fn chains_with_opposite_latencies_keep_their_own_outcomes(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { two_chains::start().id("w").await.unwrap() }).await;
        probe.reached("hold", 1).await;
        probe.open("reversed");
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("hold");
        let (a, b) = reach::<two_chains>(&next, "w").await.result().await.unwrap();
        assert_eq!((a, b), (vec!["a0".into(), "a1".into(), "a2".into()], vec!["b0".into(), "b1".into(), "b2".into()]));
        assert!(["a0", "a1", "a2", "b0", "b1", "b2"].iter().all(|name| probe.hits(name) == 1));
        assert_eq!(
            rows(&database, "SELECT branch, step_index, output FROM workflow_steps WHERE step_name = 'stage' ORDER BY branch, step_index").await,
            [r#"0.0|0|"a0""#, r#"0.0|1|"a1""#, r#"0.0|2|"a2""#, r#"0.1|0|"b0""#, r#"0.1|1|"b1""#, r#"0.1|2|"b2""#]
        );
        assert_eq!(rows(&database, "SELECT branch, step_index FROM workflow_steps WHERE step_name = 'hold'").await, ["|1"]);
    }

    async fn a_crash_inside_the_arms_repeats_only_what_was_in_flight(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { two_chains_cut::start().id("w").await.unwrap() }).await;
        rows_become(&database, "SELECT count(*) FROM workflow_steps", &["7"]).await;
        probe.reached("hold", 1).await;
        probe.open("reversed");
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("hold");
        let (a, b) = reach::<two_chains_cut>(&next, "w").await.result().await.unwrap();
        assert_eq!(a, ["a0", "a1", "a2", "a3"]);
        assert_eq!(b, ["b0", "b1", "b2", "b3"]);
        for name in ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"] {
            assert_eq!(probe.hits(name), 1, "{name}");
        }
    }

    async fn items_of_a_map_keep_their_keys_over_random_latencies(database: Database) {
        let (mut runtime, probe) = begin(&database).await;
        runtime.enter(async { many_items::start(12).id("w").await.unwrap() }).await;
        for crash in 1..=4 {
            probe.reached("hold", crash).await;
            runtime = crash_and_recover(&database, &probe, runtime).await;
        }
        probe.open("hold");
        let all = reach::<many_items>(&runtime, "w").await.result().await.unwrap();
        for (item, names) in all.iter().enumerate() {
            assert_eq!(*names, [format!("{item}.0"), format!("{item}.1"), format!("{item}.2")]);
            assert!(names.iter().all(|name| probe.hits(name) == 1), "{names:?}");
            let sql = format!("SELECT step_index, output FROM workflow_steps WHERE branch = '0.{item}' ORDER BY step_index");
            let expected: Vec<_> = names.iter().enumerate().map(|(n, name)| format!("{n}|\"{name}\"")).collect();
            assert_eq!(rows(&database, &sql).await, expected);
        }
    }

    async fn ten_steps_at_once_are_matched_to_their_own_outcomes(database: Database) {
        let (mut runtime, probe) = begin(&database).await;
        let ids: Vec<_> = (0..20).map(|n| format!("w{n}")).collect();
        for id in &ids {
            runtime.enter(async { ten_at_once::start().id(id).await.unwrap() }).await;
        }
        for crash in 1..=3 {
            probe.reached("hold", crash * ids.len()).await;
            runtime = crash_and_recover(&database, &probe, runtime).await;
        }
        probe.open("hold");
        let expected: Vec<_> = (0..10).map(|item| format!("{item}.0")).collect();
        for id in &ids {
            assert_eq!(reach::<ten_at_once>(&runtime, id).await.result().await.unwrap(), expected);
        }
        assert!(expected.iter().all(|name| probe.hits(name) == ids.len()));
    }

    async fn a_try_join_that_ended_early_ends_by_the_same_arm_again(database: Database) {
        let (runtime, probe) = begin(&database).await;
        runtime.enter(async { race_of_errors::start().id("w").await.unwrap() }).await;
        probe.reached("left", 1).await;
        probe.reached("right", 1).await;
        probe.open("right gate");
        probe.reached("hold", 1).await;
        // On replay the other arm would be first.
        probe.open("left gate");
        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.reached("hold", 2).await;
        probe.open("hold");
        assert_eq!(reach::<race_of_errors>(&next, "w").await.result().await.unwrap().unwrap_err(), "right");
        assert_eq!(probe.notes(), ["right", "right"]);
        assert_eq!((probe.hits("left"), probe.hits("right")), (1, 1));
        assert_eq!(rows(&database, "SELECT branch, step_index, kind, status FROM workflow_steps ORDER BY seq").await,
            ["0.1|0|step|error", "|0|race|error", "|1|step|done"]);
    }

    async fn a_try_join_that_ends_well_gives_all_values(database: Database) {
        let (runtime, probe) = begin(&database).await;
        assert_eq!(runtime.enter(async { all_well::start().id("w").await.unwrap().result().await.unwrap() }).await.unwrap(), 6);
        assert_eq!(probe.hits("number"), 3);
        assert_eq!(rows(&database, "SELECT branch, step_index, kind FROM workflow_steps ORDER BY branch, step_index").await,
            ["0.0|0|step", "0.1|0|step", "0.1|1|step"]);
    }

    async fn arms_inside_arms_have_branches_inside_branches(database: Database) {
        let (runtime, _probe) = begin(&database).await;
        assert_eq!(runtime.enter(async { nested::start().id("w").await.unwrap().result().await.unwrap() }).await, 15);
        assert_eq!(rows(&database, "SELECT branch, step_index, output FROM workflow_steps ORDER BY branch, step_index").await,
            ["|1|7", "0.0.0.0|0|1", "0.0.0.1|0|2", "0.1|0|5"]);
    }

    async fn a_map_runs_no_more_items_at_once_than_its_limit(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { limited::start(2).id("w").await.unwrap() }).await;
        for n in 0..6 {
            probe.reached(&format!("narrow {n}"), 1).await;
            probe.reached("inside", (n + 2).min(6)).await;
            // One has ended for each gate that was opened, and two are inside.
            assert_eq!(probe.hits("inside"), (n + 2).min(6));
            probe.open(&format!("narrow {n}"));
        }
        assert_eq!(run.result().await.unwrap(), [0, 1, 2, 3, 4, 5]);
    }
}

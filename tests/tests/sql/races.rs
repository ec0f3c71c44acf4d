//! Cancels, resumes and takeovers against writers that never rest: nothing stale is recorded, and nothing deadlocks.

use std::time::{Duration, Instant};

use durable::WorkflowStatus;
use durable_tests::on_both_stores;
use durable_tests::postgres::Cluster;

use crate::support::{connect, count, endless, execute, quick, runtime, sum_of};

/// How long the rows are raced over.
const TIME: Duration = Duration::from_secs(20);

/// Keeps every status, epoch and outcome that a row ever had, by the server's own order. Some records take their time
/// between the look at their workflow and their commit: that is where something stale gets through, if it does.
const WATCH: &str = "
    CREATE TABLE public.history (at int8 GENERATED ALWAYS AS IDENTITY, id text, status text, epoch int, xid xid8 DEFAULT pg_current_xact_id());
    CREATE TABLE public.steps (at int8 GENERATED ALWAYS AS IDENTITY, id text, branch text, idx int, epoch int, row_status text,
                               row_epoch int, started timestamptz, cancelled timestamptz);
    CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO public.history (id, status, epoch) VALUES (new.workflow_id, new.status, new.epoch); RETURN NULL; END $$;
    CREATE TRIGGER keep AFTER INSERT OR UPDATE OF status, epoch ON durable.workflows FOR EACH ROW EXECUTE FUNCTION public.keep();
    CREATE FUNCTION public.keep_step() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO public.steps (id, branch, idx, epoch, row_status, row_epoch, started, cancelled)
          SELECT new.workflow_id, new.branch, new.step_index, new.epoch, w.status, w.epoch, new.started_at, w.completed_at
          FROM durable.workflows w WHERE w.workflow_id = new.workflow_id; RETURN NULL; END $$;
    CREATE TRIGGER keep_step AFTER INSERT ON durable.workflow_steps FOR EACH ROW EXECUTE FUNCTION public.keep_step();
    CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN IF random() < 0.005 THEN PERFORM pg_sleep(0.06); END IF; RETURN new; END $$;
    CREATE TRIGGER dawdle BEFORE INSERT ON durable.workflow_steps FOR EACH ROW EXECUTE FUNCTION public.dawdle();
    CREATE FUNCTION public.done() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'done changed: % %', old.workflow_id, new.status; END $$;
    CREATE TRIGGER done BEFORE UPDATE ON durable.workflows FOR EACH ROW
        WHEN (old.status = 'done' AND new.* IS DISTINCT FROM old.*) EXECUTE FUNCTION public.done();";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_resumes_and_takeovers_let_nothing_stale_through() {
    let cluster = Cluster::start().await;
    let url = cluster.fresh_database().await;
    runtime(&url).await.shutdown().await;
    let mut connection = connect(&url).await;
    execute(&mut connection, WATCH).await;
    let steady = [runtime(&url).await, runtime(&url).await];
    let ids: Vec<String> = (0..24).map(|n| format!("w{n}")).collect();
    for (n, id) in ids.iter().enumerate() {
        let id = id.clone();
        steady[n % 2].enter(async { endless::start(0).id(id).await.unwrap() }).await;
    }
    let (begun, mut done, mut late) = (Instant::now(), 0, Vec::new());
    let mut tasks = Vec::new();
    for racer in 0..6_usize {
        let (runtime, ids) = (steady[racer % 2].clone(), ids.clone());
        tasks.push(tokio::spawn(async move {
            let (mut cancels, mut n) = (0, racer);
            while begun.elapsed() < TIME {
                n = (n * 31 + 7) % 10_007;
                let id = ids[n % ids.len()].clone();
                let run = runtime.enter(async move { durable::handle::<endless>(id) }).await;
                // Each may lose against another; none may fail otherwise.
                match n % 2 {
                    0 => match run.cancel().await {
                        Ok(()) => {
                            cancels += 1;
                            drop(run.resume().await);
                        }
                        Err(error) => assert_eq!(error.kind(), durable::ErrorKind::AlreadyEnded, "{error:?}"),
                    },
                    _ => match run.resume().await {
                        Ok(()) => {}
                        Err(error) => assert_eq!(error.kind(), durable::ErrorKind::Unsupported, "{error:?}"),
                    },
                }
            }
            cancels
        }));
    }
    // Ended workflows for the watch on `done`, and executors that end without a word.
    while begun.elapsed() < TIME {
        let brief = quick(&url).build().await.unwrap();
        for first in 0..10 {
            let run = brief.enter(async move { sum_of::start(first, 5).await.unwrap() }).await;
            assert_eq!(run.result().await.unwrap(), 5 * first + 10);
            done += 1;
        }
        for id in &ids {
            let id = id.clone();
            late.push(brief.enter(async move { durable::handle::<endless>(id) }).await.resume().await.is_ok());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(brief);
    }
    let mut cancels = 0;
    for task in tasks {
        cancels += task.await.unwrap();
    }
    assert!(cancels > 30 && done > 10 && late.contains(&true), "{cancels} {done}");

    // No step under an epoch that the row did not have, unless it was in flight when its cancel came.
    let stale = "SELECT count(*) FROM public.steps WHERE epoch <> row_epoch";
    assert_eq!(count(&mut connection, stale).await, 0);
    let not_ours = "SELECT count(*) FROM public.steps WHERE row_status <> 'running'
                    AND NOT (row_status = 'cancelled' AND started <= cancelled)";
    assert_eq!(count(&mut connection, not_ours).await, 0);
    // Epochs only grow.
    let shrunk = "SELECT count(*) FROM (SELECT epoch < lag(epoch) OVER (PARTITION BY id ORDER BY at) AS back FROM public.history) h WHERE back";
    assert_eq!(count(&mut connection, shrunk).await, 0);
    // No step is missing before one that is recorded, and each was recorded once.
    let gaps = "SELECT count(*) FROM (SELECT workflow_id, max(step_index) + 1 - count(*) AS missing FROM durable.workflow_steps
                GROUP BY workflow_id) s WHERE missing <> 0";
    assert_eq!(count(&mut connection, gaps).await, 0);
    let twice =
        "SELECT count(*) FROM (SELECT id, branch, idx FROM public.steps GROUP BY 1, 2, 3 HAVING count(*) > 1) s";
    assert_eq!(count(&mut connection, twice).await, 0);
    let log = cluster.log();
    assert!(!log.contains("deadlock detected"), "{}", log.lines().filter(|line| line.contains("deadlock")).count());
    assert!(!log.contains("done changed"), "{log}");
    for runtime in steady {
        runtime.shutdown().await;
    }
}

/// Two processes that start the same ids in opposite orders, in batches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_of_the_same_ids_in_opposite_orders_do_not_deadlock() {
    let cluster = Cluster::start().await;
    let url = cluster.fresh_database().await;
    let runtimes = [runtime(&url).await, runtime(&url).await];
    for round in 0..20 {
        let mut starts = Vec::new();
        for (n, runtime) in runtimes.iter().enumerate() {
            for k in 0..200_u64 {
                let k = if n == 0 { k } else { 199 - k };
                let start = async move { sum_of::start(k, 1).id(format!("{round}-{k}")).await.unwrap() };
                starts.push(tokio::spawn(runtime.enter(start)));
            }
        }
        for start in starts {
            let run = start.await.unwrap();
            assert_eq!(run.result().await.unwrap(), run.id().split('-').nth(1).unwrap().parse::<u64>().unwrap());
        }
    }
    assert!(!cluster.log().contains("deadlock detected"));
    for runtime in runtimes {
        runtime.shutdown().await;
    }
}

on_both_stores! {
    async fn an_acknowledged_cancel_is_final_until_a_resume(database: Database) {
        let runtime = runtime(database.url()).await;
        for round in 0..20_u64 {
            let run = runtime.enter(async move { endless::start(round % 3).await.unwrap() }).await;
            tokio::time::sleep(Duration::from_millis(round)).await;
            run.cancel().await.unwrap();
            assert_eq!(run.status().await.unwrap(), WorkflowStatus::Cancelled);
            assert_eq!(run.result().await.unwrap_err().kind(), durable::ErrorKind::Cancelled);
        }
        runtime.shutdown().await;
    }
}

/// A sweep passes rows by that another session has locked; they are not forgotten if that session gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_locked_during_a_takeover_is_taken_afterwards() {
    let url = durable_tests::postgres::fresh_database().await;
    let dead = runtime(&url).await;
    dead.enter(async { endless::start(5).id("held").await.unwrap() }).await;
    let mut connection = connect(&url).await;
    execute(&mut connection, "BEGIN; SELECT 1 FROM durable.workflows WHERE workflow_id = 'held' FOR UPDATE").await;
    drop(dead);
    let heir = runtime(&url).await;
    heir.recover().await.unwrap();
    let mut other = connect(&url).await;
    let voided = "SELECT count(*) FROM durable.executors WHERE status = 'dead'";
    crate::support::eventually(Duration::from_secs(15), "it was taken over", async || {
        count(&mut other, voided).await == 1
    })
    .await;
    // Several beats of the heir pass the row by.
    for _ in 0..3 {
        heir.recover().await.unwrap();
    }
    execute(&mut connection, "ROLLBACK").await;
    let taken =
        "SELECT count(*) FROM durable.workflows WHERE workflow_id = 'held' AND status = 'running' AND epoch = 2";
    crate::support::eventually(Duration::from_secs(15), "the heir runs it", async || {
        count(&mut other, taken).await == 1
    })
    .await;
    heir.shutdown().await;
}

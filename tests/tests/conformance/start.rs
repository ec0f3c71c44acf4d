//! `start` returned `Ok`: the workflow is recorded, once for its id, and is not lost any more.

use durable::{ErrorKind, WorkflowStatus, step, workflow};
use durable_tests::everywhere;
use futures_util::future::join_all;

use crate::support::{Probe, becomes, begin, crash_and_recover, insert_pending, probe, quick, reach, recovered, rows};

#[step]
async fn say(word: &str) -> String {
    probe().hit(format!("say {word}"));
    word.to_owned()
}

#[workflow]
async fn echo(word: String) -> String {
    probe().gate("echo").await;
    say(&word).await
}

#[workflow]
async fn other(word: String) -> String {
    say(&word).await
}

#[workflow]
async fn unlucky(word: String) -> anyhow::Result<String> {
    say(&word).await;
    anyhow::bail!("no {word} today")
}

#[step]
async fn wait_at_gate() -> usize {
    probe().gate("cap").await;
    probe().hit("through")
}

#[workflow]
async fn capped() -> usize {
    wait_at_gate().await
}

everywhere! {
    async fn a_start_that_returned_survives_a_crash(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { echo::start("hello".to_owned()).id("w").await.unwrap() }).await;
        assert_eq!(run.id(), "w");
        assert_eq!(rows(&database, "SELECT workflow_id, name, version, status, epoch FROM workflows").await, ["w|echo|1|running|1"]);
        assert_eq!(rows(&database, "SELECT part, codec, payload FROM workflow_payloads").await, [r#"input|1|{"word":"hello"}"#]);

        let next = crash_and_recover(&database, &probe, runtime).await;
        probe.open("echo");
        assert_eq!(reach::<echo>(&next, "w").await.result().await.unwrap(), "hello");
        assert_eq!(rows(&database, "SELECT workflow_id, status, epoch FROM workflows").await, ["w|done|2"]);
        assert_eq!(rows(&database, "SELECT part, payload FROM workflow_payloads ORDER BY part").await,
            [r#"input|{"word":"hello"}"#, r#"result|"hello""#]);
        assert_eq!(probe.hits("say hello"), 1);
    }

    async fn the_same_id_is_the_same_run_for_fifty_tasks_of_two_runtimes(database: Database) {
        let probe = Probe::default();
        probe.open("echo");
        let one = quick(&database, &probe).build().await.unwrap();
        let two = quick(&database, &probe).build().await.unwrap();
        let starts = (0..50).map(|n| {
            let runtime = if n % 2 == 0 { &one } else { &two };
            tokio::spawn(runtime.enter(async {
                let run = echo::start("same".to_owned()).id("w").await.unwrap();
                run.result().await.unwrap()
            }))
        });
        for result in join_all(starts).await {
            assert_eq!(result.unwrap(), "same");
        }
        assert_eq!(probe.hits("say same"), 1);

        let failing = (0..50).map(|n| {
            let runtime = if n % 2 == 0 { &one } else { &two };
            tokio::spawn(runtime.enter(async {
                let run = unlucky::start("luck".to_owned()).id("f").await.unwrap();
                run.result().await.unwrap().unwrap_err().to_string()
            }))
        });
        for result in join_all(failing).await {
            assert_eq!(result.unwrap(), "no luck today");
        }
        assert_eq!(probe.hits("say luck"), 1);
        assert_eq!(rows(&database, "SELECT workflow_id, status, attempts FROM workflows ORDER BY workflow_id").await,
            ["f|failed|1", "w|done|1"]);
    }

    async fn an_id_with_another_input_or_workflow_is_a_typed_error(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("echo");
        runtime.enter(async {
            echo::start("a".to_owned()).id("w").await.unwrap().result().await.unwrap();
            let input = echo::start("b".to_owned()).id("w").await.unwrap_err();
            assert_eq!(input.kind(), ErrorKind::AlreadyExists);
            assert!(input.to_string().contains("`w`") && input.to_string().contains("another input"), "{input}");
            let workflow = other::start("a".to_owned()).id("w").await.unwrap_err();
            assert_eq!(workflow.kind(), ErrorKind::AlreadyExists);
            assert!(workflow.to_string().contains("`echo`") && workflow.to_string().contains("`other`"), "{workflow}");
            let handle = durable::handle::<other>("w").status().await.unwrap_err();
            assert_eq!(handle.kind(), ErrorKind::NotFound, "{handle}");
            assert_eq!(echo::start("a".to_owned()).id("w").await.unwrap().result().await.unwrap(), "a");
        }).await;
        assert_eq!(probe.hits("say a"), 1);
        assert_eq!(probe.hits("say b"), 0);
    }

    async fn an_id_that_is_no_printable_text_is_refused_before_any_write(database: Database) {
        let (runtime, _) = begin(&database).await;
        for id in ["", "  ", "\t", "a\nb", "nul\0", &"x".repeat(10_000)] {
            let error = runtime.enter(async { echo::start("a".to_owned()).id(id).await.unwrap_err() }).await;
            assert_eq!(error.kind(), ErrorKind::InvalidId, "{id:?}");
        }
        assert_eq!(rows(&database, "SELECT count(*) FROM workflows").await, ["0"]);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_payloads").await, ["0"]);
    }

    async fn a_row_with_an_empty_id_makes_no_other_row(database: Database) {
        let (runtime, probe) = begin(&database).await;
        insert_pending(&database, "", "echo", None).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        becomes(&reach::<echo>(&next, "").await, WorkflowStatus::Blocked).await;
        assert_eq!(rows(&database, "SELECT workflow_id, status FROM workflows").await, ["|blocked"]);
        assert_eq!(rows(&database, "SELECT count(*) FROM workflow_payloads").await, ["0"]);
    }

    async fn a_workflow_that_nobody_registered_stays_pending(database: Database) {
        let (runtime, probe) = begin(&database).await;
        probe.open("echo");
        insert_pending(&database, "foreign", "of_another_build", Some("{}")).await;
        insert_pending(&database, "known", "other", Some(r#"{"word":"known"}"#)).await;
        let next = crash_and_recover(&database, &probe, runtime).await;
        // The one that is served is older in no way: whoever took it has looked at both.
        assert_eq!(reach::<other>(&next, "known").await.result().await.unwrap(), "known");
        next.recover().await.unwrap();
        assert_eq!(rows(&database, "SELECT status, epoch, attempts, recoveries FROM workflows WHERE workflow_id = 'foreign'").await,
            ["pending|0|0|0"]);
    }

    async fn no_more_workflows_run_at_once_than_the_cap(database: Database) {
        let probe = Probe::default();
        let runtime = quick(&database, &probe).max_running(2).build().await.unwrap();
        let runs = runtime.enter(async {
            let mut runs = Vec::new();
            for n in 0..5 {
                runs.push(capped::start().id(format!("w{n}")).await.unwrap());
            }
            runs
        }).await;
        probe.reached("cap", 2).await;
        let counted = "SELECT status, count(*) FROM workflows GROUP BY status ORDER BY status";
        assert_eq!(rows(&database, counted).await, ["pending|3", "running|2"]);
        // A sweep that is asked for claims no more either.
        runtime.recover().await.unwrap();
        assert_eq!(rows(&database, counted).await, ["pending|3", "running|2"]);
        assert_eq!(probe.hits("cap"), 2);
        probe.open("cap");
        for run in runs {
            run.result().await.unwrap();
        }
        assert_eq!(probe.hits("through"), 5);
    }

    async fn a_run_in_another_process_is_awaited_by_its_id(database: Database) {
        let (one, probe) = begin(&database).await;
        one.enter(async { echo::start("far".to_owned()).id("w").await.unwrap() }).await;
        let two = recovered(&database, &probe).await;
        let run = reach::<echo>(&two, "w").await;
        assert_eq!(run.status().await.unwrap(), WorkflowStatus::Running);
        probe.open("echo");
        assert_eq!(run.result().await.unwrap(), "far");
        assert_eq!(rows(&database, "SELECT epoch, recoveries FROM workflows").await, ["1|0"], "a living owner keeps it");
        let missing = reach::<echo>(&two, "nobody").await.result().await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    async fn two_runtimes_in_one_process_do_not_meet(database: Database) {
        let elsewhere = database.store().fresh_database().await;
        let (here, at_home) = begin(&database).await;
        let (there, abroad) = begin(&elsewhere).await;
        at_home.open("echo");
        abroad.open("echo");
        here.enter(async { echo::start("home".to_owned()).id("w").await.unwrap().result().await.unwrap() }).await;
        there.enter(async { echo::start("abroad".to_owned()).id("w").await.unwrap().result().await.unwrap() }).await;
        assert_eq!((at_home.hits("say home"), at_home.hits("say abroad")), (1, 0));
        assert_eq!((abroad.hits("say home"), abroad.hits("say abroad")), (0, 1));
    }
}

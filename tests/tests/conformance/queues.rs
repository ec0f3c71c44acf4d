//! Queues: what is claimed, in which order, and where.

use std::time::Duration;

use durable::{ErrorKind, QueueLimits, WorkflowStatus, step, workflow};
use durable_tests::everywhere;

use crate::support::{Probe, becomes, begin, probe, quick, rows, rows_become};

#[step]
async fn note(word: &str) {
    probe().note(word);
}

#[workflow(queue = "mail")]
async fn send(word: String) -> String {
    note(&word).await;
    word
}

#[workflow]
async fn gated(word: String) -> String {
    note(&word).await;
    probe().gate("queue").await;
    word
}

/// One at a time: the order of the notes is that of the claims.
fn in_turn(database: &durable_tests::Database, probe: &Probe) -> durable::Builder {
    quick(database, probe).max_running(1)
}

everywhere! {
    async fn a_workflow_with_a_queue_is_claimed_from_it(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let run = runtime.enter(async { send::start("hello".to_owned()).id("w").await.unwrap() }).await;
        assert_eq!(run.result().await.unwrap(), "hello");
        assert_eq!(runtime.enter(send("plain".to_owned())).await, "plain");
        assert_eq!(rows(&database, "SELECT queue, status, epoch FROM workflows ORDER BY submission").await,
            ["mail|done|1", "mail|done|1"]);
        assert_eq!(probe.notes(), ["hello", "plain"]);
        runtime.shutdown().await;
    }

    async fn an_unknown_queue_is_refused_and_nothing_is_recorded(database: Database) {
        let (runtime, _) = begin(&database).await;
        let error = runtime.enter(async { gated::start(String::new()).queue("nope").await.unwrap_err() }).await;
        assert_eq!(error.kind(), ErrorKind::UnknownQueue);
        assert!(error.to_string().contains("`nope`") && error.to_string().contains("Client::set_queue"), "{error}");
        assert!(rows(&database, "SELECT workflow_id FROM workflows").await.is_empty());
        runtime.client().set_queue("nope", QueueLimits::new()).await.unwrap();
        runtime.enter(async { gated::start(String::new()).queue("nope").await.unwrap() }).await;
        runtime.shutdown().await;
    }

    async fn work_is_claimed_by_priority_then_due_time_then_submission(database: Database) {
        let probe = Probe::default();
        let client = quick(&database, &probe).queue("q", QueueLimits::new()).client().await.unwrap();
        client.set_queue("q", QueueLimits::new()).await.unwrap();
        let start = |word: &str, priority| send::start(word.to_owned()).queue("q").id(word).priority(priority);
        client.start_many([start("third", 0), start("fourth", 0), start("second", -1), start("last", 9)]).await.unwrap();
        // Due before all of its priority, though submitted after them.
        let past = std::time::SystemTime::now() - Duration::from_secs(60);
        client.start(start("first of the rest", 0).at(past)).await.unwrap();
        let runtime = in_turn(&database, &probe).build().await.unwrap();
        let last = runtime.client().handle::<send>("last");
        last.result().await.unwrap();
        assert_eq!(probe.notes(), ["second", "first of the rest", "third", "fourth", "last"]);
        runtime.shutdown().await;
    }

    async fn a_delayed_run_is_never_early(database: Database) {
        let (runtime, _) = begin(&database).await;
        let run = runtime.enter(async { send::start("later".to_owned()).id("w").delay(Duration::from_millis(700)).await.unwrap() }).await;
        assert_eq!(run.status().await.unwrap(), WorkflowStatus::Waiting);
        assert_eq!(rows(&database, "SELECT reason FROM workflows").await, ["delay"]);
        run.result().await.unwrap();
        assert_eq!(rows(&database, "SELECT started_at >= wake_at FROM workflows").await.len(), 1);
        let early = "SELECT workflow_id FROM workflows WHERE started_at < wake_at";
        assert!(rows(&database, early).await.is_empty());
        runtime.shutdown().await;
    }

    async fn a_paused_queue_is_passed_by_until_it_goes_on(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let client = runtime.client();
        client.pause_queue("mail").await.unwrap();
        let run = client.start(send::start("held".to_owned()).id("held")).await.unwrap();
        client.set_queue("other", QueueLimits::new()).await.unwrap();
        client.start(send::start("free".to_owned()).queue("other")).await.unwrap().result().await.unwrap();
        assert_eq!(run.status().await.unwrap(), WorkflowStatus::Pending);
        let info = client.queue("mail").await.unwrap().unwrap();
        assert!(info.paused);
        assert_eq!((info.pending, info.running, info.waiting), (1, 0, 0));
        client.resume_queue("mail").await.unwrap();
        run.result().await.unwrap();
        assert_eq!(probe.notes(), ["free", "held"]);
        assert_eq!(client.pause_queue("nope").await.unwrap_err().kind(), ErrorKind::UnknownQueue);
        runtime.shutdown().await;
    }

    async fn a_process_claims_from_the_queues_it_serves(database: Database) {
        let probe = Probe::default();
        let submits = quick(&database, &probe).queues::<String>([]).build().await.unwrap();
        let (mail, plain) = submits
            .enter(async {
                let mail = send::start("mail".to_owned()).id("mail").await.unwrap();
                (mail, gated::start("plain".to_owned()).id("plain").await.unwrap())
            })
            .await;
        submits.recover().await.unwrap();
        assert_eq!(mail.status().await.unwrap(), WorkflowStatus::Pending);
        assert_eq!(plain.status().await.unwrap(), WorkflowStatus::Pending);
        let mailer = quick(&database, &probe).queues(["mail"]).build().await.unwrap();
        mail.result().await.unwrap();
        assert_eq!(plain.status().await.unwrap(), WorkflowStatus::Pending);
        mailer.shutdown().await;
        let other = quick(&database, &probe).queues(["default"]).build().await.unwrap();
        becomes(&plain, WorkflowStatus::Running).await;
        probe.open("queue");
        plain.result().await.unwrap();
        other.shutdown().await;
        submits.shutdown().await;
    }

    async fn a_global_limit_holds_and_is_changed_while_running(database: Database) {
        let probe = Probe::default();
        let limits = QueueLimits::new().concurrency(2);
        let one = quick(&database, &probe).queue("narrow", limits.clone()).build().await.unwrap();
        let two = quick(&database, &probe).queue("narrow", limits).build().await.unwrap();
        let client = one.client();
        client.start_many((0..6).map(|n| gated::start(n.to_string()).queue("narrow").id(n.to_string()))).await.unwrap();
        probe.reached("queue", 2).await;
        one.recover().await.unwrap();
        two.recover().await.unwrap();
        let running = "SELECT count(*) FROM workflows WHERE status = 'running'";
        assert_eq!(rows(&database, running).await, ["2"]);
        client.set_queue("narrow", QueueLimits::new().concurrency(5)).await.unwrap();
        probe.reached("queue", 5).await;
        assert_eq!(rows(&database, running).await, ["5"]);
        probe.open("queue");
        rows_become(&database, "SELECT count(*) FROM workflows WHERE status = 'done'", &["6"]).await;
        one.shutdown().await;
        two.shutdown().await;
    }

    async fn a_queue_that_another_process_limits_is_heeded_by_the_next_start(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let elsewhere = quick(&database, &probe).client().await.unwrap();
        elsewhere.set_queue("q", QueueLimits::new()).await.unwrap();
        let start = |n: u32| gated::start(n.to_string()).queue("q").id(n.to_string());
        // Without a limit it begins in the commit that records it.
        runtime.enter(async move { start(0).await.unwrap() }).await;
        assert_eq!(rows(&database, "SELECT status, queue, epoch FROM workflows").await, ["running|q|1"]);
        elsewhere.set_queue("q", QueueLimits::new().concurrency(2)).await.unwrap();
        for n in 1..6 {
            runtime.enter(async move { start(n).await.unwrap() }).await;
        }
        probe.reached("queue", 2).await;
        assert_eq!(rows(&database, "SELECT status, count(*) FROM workflows GROUP BY status ORDER BY status").await,
            ["pending|4", "running|2"]);
        elsewhere.pause_queue("q").await.unwrap();
        probe.open("queue");
        rows_become(&database, "SELECT status, count(*) FROM workflows GROUP BY status ORDER BY status", &["done|2", "pending|4"]).await;
        elsewhere.resume_queue("q").await.unwrap();
        rows_become(&database, "SELECT count(*) FROM workflows WHERE status = 'done'", &["6"]).await;
        runtime.shutdown().await;
    }

    async fn the_default_queue_can_be_paused_and_limited_too(database: Database) {
        let (runtime, probe) = begin(&database).await;
        let client = runtime.client();
        client.pause_queue("default").await.unwrap();
        let run = runtime.enter(async { gated::start("held".to_owned()).id("held").await.unwrap() }).await;
        assert_eq!(run.status().await.unwrap(), WorkflowStatus::Pending);
        client.set_queue("default", QueueLimits::new().concurrency(1)).await.unwrap();
        client.resume_queue("default").await.unwrap();
        let second = runtime.enter(async { gated::start("second".to_owned()).id("second").await.unwrap() }).await;
        probe.reached("queue", 1).await;
        assert_eq!(rows(&database, "SELECT status, count(*) FROM workflows GROUP BY status ORDER BY status").await,
            ["pending|1", "running|1"]);
        probe.open("queue");
        run.result().await.unwrap();
        second.result().await.unwrap();
        runtime.shutdown().await;
    }
}

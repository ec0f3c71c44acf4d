//! `llm_pipeline`, killed by itself and from outside: no recorded answer is asked for twice.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;

use durable_tests::{Database, on_both_stores};

use crate::scene::{LIMIT, Scene, eventually};

/// Calls by idempotency key.
type Calls = BTreeMap<String, u64>;

/// The program, built where this test was built.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let profile = Path::new(env!("CARGO_BIN_EXE_victim")).parent().unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "durable-examples", "--example", "llm_pipeline"]);
        build.arg("--target-dir").arg(profile.parent().unwrap());
        build.args((profile.file_name().unwrap() == "release").then_some("--release"));
        let built = build.status().unwrap();
        assert!(built.success(), "the example does not build");
        profile.join("examples/llm_pipeline")
    })
}

struct Example {
    scene: Scene,
    url: String,
    folder: tempfile::TempDir,
    /// What was called and not recorded at some kill.
    in_flight: usize,
    kills: u64,
    /// What the last kill found.
    seen: Calls,
    may_repeat: usize,
}

impl Example {
    fn new(database: &Database) -> Self {
        Self {
            scene: Scene::new(database),
            url: database.url().to_owned(),
            folder: tempfile::tempdir().unwrap(),
            in_flight: 0,
            kills: 0,
            seen: Calls::new(),
            may_repeat: 0,
        }
    }

    fn spawn(&self, args: &[&str]) -> Child {
        let out = File::create(self.folder.path().join("out")).unwrap();
        let mut command = Command::new(program());
        for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "DURABLE_DATABASE_URL"] {
            command.env_remove(key);
        }
        command
            .current_dir(self.folder.path())
            .env("DATABASE_URL", &self.url)
            .args(["--calls", "calls.json"])
            .args(args);
        command.stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap()
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("out")).unwrap()
    }

    fn calls(&self) -> Calls {
        std::fs::read(self.folder.path().join("calls.json"))
            .map_or_else(|_| Calls::new(), |text| serde_json::from_slice(&text).unwrap())
    }

    async fn ends(&self, child: &mut Child) -> ExitStatus {
        let mut status = None;
        eventually("the program ends", LIMIT * 2, async || {
            status = child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    async fn records(&self) -> usize {
        usize::try_from(self.scene.number("SELECT count(*) FROM workflow_steps").await).unwrap()
    }

    /// A run's calls against what the kill before it found: only what was in flight then was called again, once.
    fn compare(&mut self) {
        let calls = self.calls();
        let repeated: Vec<_> = self.seen.iter().filter(|(key, count)| calls[*key] != **count).collect();
        assert!(repeated.iter().all(|(key, count)| calls[*key] == **count + 1), "{repeated:?} became {calls:?}");
        assert!(repeated.len() <= self.may_repeat, "{repeated:?}, and {} calls were in flight", self.may_repeat);
        let fresh = calls.iter().filter(|(key, _)| !self.seen.contains_key(*key));
        assert!(fresh.clone().all(|(_, count)| *count == 1), "{calls:?}");
        self.seen = calls;
    }

    async fn note_kill(&mut self) {
        self.scene.nothing_in_flight().await;
        self.compare();
        self.kills += 1;
        // Each record had its call, so the others were in flight.
        self.may_repeat = self.seen.len() - self.records().await;
        self.in_flight += self.may_repeat;
    }

    async fn finishes(&mut self) {
        let recorded = self.records().await;
        let mut child = self.spawn(&["--latency", "50"]);
        let status = self.ends(&mut child).await;
        let output = self.output();
        assert_eq!(status.code(), Some(0), "{output}");
        let lines = [1, 2].map(|n| {
            let s = if n == 1 { "" } else { "s" };
            format!(
                "recovered {n} workflow{s}, {recorded} step{} already recorded",
                if recorded == 1 { "" } else { "s" }
            )
        });
        assert!(lines.iter().any(|line| output.contains(line)), "{output}");
        self.compare();
        let (calls, records) = (self.calls(), self.records().await);
        assert_eq!(calls.len(), records, "each call is recorded once");
        let above: u64 = calls.values().map(|count| count - 1).sum();
        assert!(
            usize::try_from(above).unwrap() <= self.in_flight && calls.values().all(|count| *count <= 1 + self.kills)
        );
        assert_eq!(self.scene.texts("SELECT DISTINCT status FROM workflows").await, ["done"]);
        assert_eq!(std::fs::read_dir(self.folder.path().join("reports")).unwrap().count(), 2);
    }
}

on_both_stores! {
    async fn the_example_that_kills_itself_goes_on_from_its_third_checkpoint(database: Database) {
        let mut example = Example::new(&database);
        let mut child = example.spawn(&["--crash-after", "3"]);
        let status = example.ends(&mut child).await;
        assert_eq!(status.signal(), Some(9), "{}", example.output());
        assert!(example.records().await >= 3);
        example.note_kill().await;
        example.finishes().await;
    }

    async fn the_example_that_is_killed_from_outside_asks_nothing_twice_that_was_recorded(database: Database) {
        let mut example = Example::new(&database);
        for n in 0..5_u64 {
            let total: u64 = example.calls().values().sum();
            let mut child = example.spawn(&["--latency", "300"]);
            eventually("it calls the model", LIMIT, async || example.calls().values().sum::<u64>() > total).await;
            // The random moment.
            tokio::time::sleep(Duration::from_millis(RandomState::new().hash_one(n) % 400)).await;
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(9), "it ended before the kill");
            example.note_kill().await;
        }
        example.finishes().await;
    }
}

/// What another language, psql or a trigger does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_that_serves_starts_what_sql_enqueues_at_once() {
    let database = durable_tests::Store::Postgres.fresh_database().await;
    let example = Example::new(&database);
    let mut child = example.spawn(&["--serve", "--latency", "0"]);
    eventually("it serves", LIMIT, async || example.output().contains("serving")).await;
    for n in 1..=5 {
        // Apart from each other and from the heartbeats.
        tokio::time::sleep(Duration::from_millis(130)).await;
        let sql = r##"SELECT durable.enqueue('llm_pipeline', '{"doc": "# Title\n\nSome text."}')"##;
        sqlx::query(sql).execute(example.scene.postgres()).await.unwrap();
        let done = "SELECT count(*) FROM workflows WHERE status = 'done'";
        eventually("it is done", LIMIT, async || example.scene.number(done).await == n).await;
    }
    let waits =
        "SELECT CAST(1000 * extract(epoch FROM started_at - created_at) AS text) FROM workflows ORDER BY submission";
    let mut waits: Vec<f64> = example.scene.texts(waits).await.iter().map(|wait| wait.parse().unwrap()).collect();
    waits.sort_by(f64::total_cmp);
    // The promise is 100 ms; a heartbeat alone would be 500 in the middle.
    assert!(waits[2] <= 300.0, "{waits:?} ms");
    child.kill().unwrap();
    child.wait().unwrap();
}

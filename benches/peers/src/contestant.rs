//! The contestants' programs: built once, then started for each work and round.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use durable_peers_contest::{Answer, Work};
use serde::Deserialize;

/// No work takes that long: something hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// A program that can do the works.
pub(crate) struct Contestant {
    name: &'static str,
    program: PathBuf,
}

/// What cargo tells of a built artifact.
#[derive(Deserialize)]
struct Built {
    executable: Option<PathBuf>,
}

impl Contestant {
    /// Ours, `dbos`, `durare`.
    pub(crate) fn build_all() -> Result<[Self; 3]> {
        // Beside this program. In one folder for all, each would have the others' dependencies rebuilt.
        let program = std::env::current_exe()?;
        let targets = program.ancestors().nth(2).context("the program is in no folder")?.join("contestants");
        Ok([Self::build("ours", &targets)?, Self::build("dbos", &targets)?, Self::build("durare", &targets)?])
    }

    fn build(name: &'static str, targets: &Path) -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(name).join("Cargo.toml");
        let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--release", "--locked", "--message-format", "json-render-diagnostics", "--manifest-path"])
            .arg(&manifest)
            .arg("--target-dir")
            .arg(targets.join(name))
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(built.status.success(), "`{name}` does not build");
        let program = String::from_utf8(built.stdout)?
            .lines()
            .filter_map(|line| serde_json::from_str::<Built>(line).ok()?.executable)
            .next_back()
            .with_context(|| format!("cargo does not say where `{name}` is"))?;
        Ok(Self { name, program })
    }

    /// One work on an empty database.
    pub(crate) async fn measure(&self, work: &Work, url: &str, quick: bool) -> Result<Answer> {
        let what = || format!("`{}` at the work `{}`", self.name, work.name);
        let running = tokio::process::Command::new(&self.program)
            .args([work.name, url])
            .args(quick.then_some("--quick"))
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, running).await.with_context(what)?.with_context(what)?;
        ensure!(output.status.success(), "{} failed: {}", what(), output.status);
        serde_json::from_slice(&output.stdout).with_context(what)
    }
}

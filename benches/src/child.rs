//! This program once more as a child process: one that can be killed, or that starts with empty memory.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use clap::ValueEnum;

use crate::database::Database;
use crate::works::{failover, memory};

/// What a child is for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Owns a workflow until it is killed.
    Failover,
    /// Measures its own memory.
    Memory,
}

/// A child process, killed with this value.
pub(crate) struct Child {
    process: std::process::Child,
    lines: BufReader<ChildStdout>,
    /// Its end is the sign to the child that nobody needs it.
    _stdin: Option<ChildStdin>,
}

/// In the child: does what it is for.
pub(crate) async fn run(task: Task, url: &str) -> anyhow::Result<()> {
    // Killed or not, the parent's end is the end of the pipe.
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    });
    match task {
        Task::Failover => failover::own(url).await,
        Task::Memory => memory::measure(url).await,
    }
}

impl Child {
    /// Starts this program again, on the same database.
    pub(crate) fn start(task: Task, database: &Database) -> anyhow::Result<Self> {
        let (store, task) = (possible(&database.store), possible(&task));
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--store", &store, "--url", &database.url, "--child", &task])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = process.stdout.take().ok_or_else(|| anyhow::anyhow!("the child has no output"))?;
        let stdin = process.stdin.take();
        Ok(Self { process, lines: BufReader::new(stdout), _stdin: stdin })
    }

    /// The next line that it writes; blocks this thread.
    pub(crate) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        anyhow::ensure!(!line.is_empty(), "the child ended: {}", self.process.wait()?);
        Ok(line.trim().to_owned())
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// As the flag has it.
fn possible<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

//! The command line: what it takes, what each flag means, and one exit code for everything that is wrong with it.
//!
//! Reads no file and no variable; the other modules do when they need one. Layer: below `main`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// The command line. The text of each field is its line in `--help`.
#[derive(Debug, Parser)]
#[command(name = "llm_pipeline", about = ABOUT, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Text or Markdown files [default: two that come along]
    #[arg(value_name = "DOCUMENT")]
    pub(crate) documents: Vec<PathBuf>,

    /// Kill this process (SIGKILL) after its Nth checkpoint
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) crash_after: Option<u64>,

    /// Then run what other processes start, until Ctrl-C
    #[arg(long)]
    pub(crate) serve: bool,

    /// Count the stand-in's calls by idempotency key, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) calls: Option<PathBuf>,

    /// Postgres or SQLite, such as sqlite://durable.db
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,

    /// Milliseconds that the stand-in takes
    #[arg(long, value_name = "MS", default_value_t = 150, value_parser = clap::value_parser!(u64).range(..=600_000))]
    pub(crate) latency: u64,

    /// Folder for the Markdown reports
    #[arg(long, value_name = "DIR", default_value = "reports")]
    pub(crate) reports: PathBuf,
}

const ABOUT: &str = "\
Summarizes, translates and verifies documents, and survives being killed.

Each document is split in sections. They are summarized in parallel and
combined, the summary is translated into Korean and Japanese, and the
translations are verified. Each answer of the model is recorded. Kill the
program and run the same command again: it goes on from the last recorded
answer, and no recorded answer is asked for, or paid for, twice.";

const AFTER_HELP: &str = "\
Model, by the first variable that is set:
  ANTHROPIC_API_KEY   Anthropic (also: ANTHROPIC_MODEL, ANTHROPIC_BASE_URL)
  OPENAI_API_KEY      OpenAI (also: OPENAI_MODEL, OPENAI_BASE_URL)
  OPENAI_BASE_URL     a server with OpenAI's chat API; a local one needs no key
  none of them        a stand-in inside this process: no network, no cost

Database, without `--database`: DURABLE_DATABASE_URL, else DATABASE_URL, else
the file durable.db in the current folder.

Try it:
  llm_pipeline --crash-after 3     dies in the middle
  llm_pipeline                     goes on and finishes
  llm_pipeline --serve             does only what other processes start";

impl Args {
    /// The command line of this process, or the exit code after help or an error has been printed:
    /// 0 for `--help`, 1 for anything that can't be understood.
    pub(crate) fn from_command_line() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| {
            // A closed terminal is no reason for another exit code.
            let _ = error.print();
            if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn no_argument_is_needed() {
        let args = parse("llm_pipeline").unwrap();
        assert!(args.documents.is_empty() && !args.serve && args.crash_after.is_none());
        assert_eq!((args.latency, args.reports.as_path()), (150, "reports".as_ref()));
    }

    #[test]
    fn flags_and_documents_mix() {
        let args = parse("llm_pipeline a.md --crash-after 3 --calls c.json b.md --latency 0 --database sqlite://x.db")
            .unwrap();
        assert_eq!(args.documents, [PathBuf::from("a.md"), PathBuf::from("b.md")]);
        assert_eq!((args.crash_after, args.latency), (Some(3), 0));
        assert_eq!(args.database.as_deref(), Some("sqlite://x.db"));
    }

    #[test]
    fn a_wrong_value_names_its_flag() {
        for line in ["--crash-after 0", "--crash-after soon", "--latency 1s", "--latency 999999999"] {
            let error = parse(&format!("llm_pipeline {line}")).unwrap_err().to_string();
            assert!(error.contains(line.split(' ').next().unwrap()), "{error}");
        }
    }

    #[test]
    fn an_unknown_flag_is_an_error_and_help_is_not() {
        assert!(parse("llm_pipeline --crash").unwrap_err().use_stderr());
        assert!(!parse("llm_pipeline --help").unwrap_err().use_stderr());
    }
}

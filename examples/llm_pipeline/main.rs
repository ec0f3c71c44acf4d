//! Summarizes, translates and verifies documents with a language model, and survives being killed at any moment.
//!
//! `pipeline.rs` is the program: a workflow and four steps. `provider/` calls the model, `document.rs` reads and
//! splits, `report.rs` prints, `progress.rs` shows the runtime's events. This file puts them together.
//!
//! ```sh
//! cargo run --example llm_pipeline -- --crash-after 3    # dies after three recorded steps
//! cargo run --example llm_pipeline                       # goes on with the fourth
//! ```

mod args;
mod atomic;
mod document;
mod pipeline;
mod progress;
mod provider;
mod report;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use durable::{WorkflowHandle, WorkflowStatus};

use args::Args;
use document::Document;
use pipeline::llm_pipeline;
use progress::Progress;
use provider::Provider;

#[tokio::main]
async fn main() -> ExitCode {
    let args = match Args::from_command_line() {
        Ok(args) => args,
        Err(code) => return code,
    };
    match run(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// True if each document has its report.
async fn run(args: &Args) -> anyhow::Result<bool> {
    let documents = match (args.documents.as_slice(), args.serve) {
        ([], true) => Vec::new(),
        ([], false) => document::samples(),
        (paths, _) => document::read_all(paths)?,
    };
    report::prepare(&args.reports)?;
    let provider = Provider::from_env(Duration::from_millis(args.latency), args.calls.as_deref()).await?;
    let progress = Arc::new(Progress::new(args.crash_after, &documents));
    progress.say(provider.describe());

    let observer = Arc::clone(&progress);
    let mut builder = durable::Builder::new().state(provider).on_event(move |event| observer.observe(event));
    if let Some(url) = &args.database {
        builder = builder.url(url);
    }
    builder.init().await?;

    let reported = until_stopped(args, &documents, &progress).await;
    durable::shutdown().await;
    reported
}

async fn until_stopped(args: &Args, documents: &[Document], progress: &Progress) -> anyhow::Result<bool> {
    let complete = tokio::select! {
        complete = work(args, documents, progress) => complete?,
        stopped = stop_signal() => {
            stopped?;
            progress.warn("stopped: the same command goes on from the last checkpoint");
            return Ok(false);
        }
    };
    if args.serve {
        progress.say("serving; Ctrl-C ends it");
        stop_signal().await?;
    }
    Ok(complete)
}

/// Continues what was left, runs the documents, and reports on each.
async fn work(args: &Args, documents: &[Document], progress: &Progress) -> anyhow::Result<bool> {
    let recovered = durable::recover().await?;
    progress.say(&recovered);
    for id in &recovered.ids {
        progress.say(format_args!("  continues {id}"));
    }

    let mut runs = Vec::new();
    for document in documents {
        runs.push((document.name.clone(), start(document, progress).await?));
    }
    for id in recovered.ids.iter().filter(|id| documents.iter().all(|document| document.id != **id)) {
        runs.push((document::name_of(id).to_owned(), durable::handle::<llm_pipeline>(id)));
    }

    let mut complete = true;
    let mut names = BTreeSet::new();
    for (name, run) in runs {
        let id = run.id().to_owned();
        // Two documents can have one name, in two folders or before and after an edit; their ids differ.
        let name = if names.insert(name.clone()) { name } else { id.clone() };
        match run.result().await.map_err(anyhow::Error::from).flatten() {
            Ok(report) => {
                let path = report::write(&args.reports, &name, &id, &report)?;
                progress.say(report::terminal(&path, &id, &report));
            }
            Err(error) => {
                complete = false;
                progress.warn(format_args!("error: no report for `{name}` (run {id}): {error:#}"));
            }
        }
    }
    Ok(complete)
}

/// The run of a document. The same id twice is the same run: one that was recovered is met here, a finished one has
/// its result, and one that failed gets another attempt that keeps what was recorded.
async fn start(document: &Document, progress: &Progress) -> anyhow::Result<WorkflowHandle<llm_pipeline>> {
    let Document { id, text, .. } = document;
    // An error says that there is no run yet, or what `start` says again.
    let earlier = durable::handle::<llm_pipeline>(id).status().await.ok();
    let run = llm_pipeline::start(text.clone()).id(id).await.with_context(|| format!("cannot start run `{id}`"))?;
    use WorkflowStatus::{Blocked, Cancelled, Dead, Failed};
    if let Some(status @ (Failed | Cancelled | Dead | Blocked)) = earlier {
        progress.say(format_args!("run {id} was {status}: trying again with what it has recorded"));
        run.resume().await?;
    }
    Ok(run)
}

/// Ctrl-C, or the SIGTERM of a supervisor.
async fn stop_signal() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot listen for SIGTERM")?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot listen for Ctrl-C"),
        _ = terminate.recv() => Ok(()),
    }
}

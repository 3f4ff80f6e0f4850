//! `speedwell import`: foreign or exported results into the store.

use super::options::{OriginArgs, OutputArgs, StoreArgs};
use super::results_file::{self, Remarks};
use super::{Status, status};
use anyhow::Context;
use clap::Args;
use speedwell_analysis::validity::{self, Known};
use speedwell_harness::discover::Selection;
use speedwell_model::Value;
use speedwell_report::{self as report, Block, Document};
use speedwell_results::formats;
use std::path::PathBuf;

/// Read results of other tools, or exported ones, into the store
///
/// The kind of a file is found by its content: own JSON lines, CSV of Node core's run.js,
/// compare.js or scatter.js, JSON of google/benchmark, hyperfine, pyperf, autocannon or oha, text of
/// go test -bench, ab, wrk, h2load, hey or oha, and tables of figures in Markdown. Figures that cannot be
/// what they are said to be are printed; '--set connections=100 --set pipelining=10' says of all cases
/// what a file does not.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files to read; '-' is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Set a parameter to these values instead of the declared ones (repeatable)
    #[arg(short = 's', long = "set", value_name = "NAME=V")]
    set: Vec<String>,
    /// A variant that does more work than the baseline, so that it cannot be better (repeatable)
    #[arg(long, value_name = "VARIANT")]
    never_better: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    origin: OriginArgs,
}

/// Imports.
///
/// # Errors
/// A file that cannot be read or understood; nothing of any file is stored then.
pub fn run(args: ImportArgs) -> anyhow::Result<Status> {
    let values = args.values()?;
    let mut sessions = Vec::new();
    let mut remarks = Remarks::default();
    for file in &args.files {
        sessions.extend(results_file::read(file, &mut remarks)?);
    }
    remarks.tell();
    let known = Known {
        never_better: args.never_better.clone(),
        ..Known::default()
    };
    let mut store = args.store.open()?;
    let mut document = Document::new("validity");
    for mut session in sessions {
        formats::set(&mut session, &values);
        session.tags.extend(args.store.tag.iter().cloned());
        args.origin.say(&mut session);
        let number = store.insert(&session)?;
        if !args.output.quiet {
            status::note(&format!(
                "@{number}: {} runs of {} variants",
                session.runs.len(),
                session.variants.len()
            ));
        }
        let found = validity::check(&session, &known);
        if !found.is_empty() {
            document.push(Block::Heading {
                level: 3,
                text: format!("@{number}"),
            });
            document.append(report::validity(&found));
        }
    }
    // Without findings there is nothing to say, unless a form of it was asked for.
    let is_asked_for = args.output.format.is_some() || !args.output.output.is_empty();
    if !document.blocks.is_empty() || is_asked_for {
        args.output.print(&document)?;
    }
    Ok(Status::DONE)
}

impl ImportArgs {
    /// What the user says of all cases.
    fn values(&self) -> anyhow::Result<Vec<(String, Value)>> {
        let mut values = Vec::new();
        for text in &self.set {
            let (name, value) = text
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .with_context(|| format!("in --set: '{text}' is not of the form NAME=VALUE"))?;
            values.push((
                name.to_owned(),
                Value::guess(&Selection::written_out(value)),
            ));
        }
        Ok(values)
    }
}

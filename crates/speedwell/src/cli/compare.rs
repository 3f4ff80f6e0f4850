//! `speedwell compare`: existing results, or two programs measured first.

use super::options::ComparisonArgs;
use super::report::document_of;
use super::run::{self, RunArgs};
use super::source::{self, Source};
use super::{Status, gate};
use crate::analysis::{self, Findings};
use crate::model::Session;
use crate::report;
use anyhow::bail;
use clap::Args;

/// Compare existing results, or measure two programs on the same targets and compare
///
/// SOURCE is a FILE (own JSON lines, Node CSV, JSON of google/benchmark, hyperfine or pyperf; '-' is
/// stdin) or a stored session (@latest, @prev, @NUMBER, @TAG), each with an optional [VARIANT] and ::REGEX. The first is the baseline. One
/// source that holds several variants is compared within itself.
#[derive(Debug, Args)]
#[command(
    mut_arg("targets", |arg| arg.value_name("SOURCE|TARGET").help(
        "Results to compare; with --old/--new or --variant, what to measure")),
    after_help = "Examples:
  speedwell compare --old ./node-18 --new ./node-22 string_decoder
  speedwell compare before.csv after.csv
  speedwell compare @prev @latest --fail-on worse --threshold 5%
  speedwell compare '@latest[old]::memcpy' '@latest[new]::copy'")]
pub struct CompareArgs {
    #[command(flatten)]
    measuring: RunArgs,
}

/// Compares.
///
/// # Errors
/// Sources that cannot be read or have nothing in common, wrong words.
pub fn run(args: CompareArgs) -> anyhow::Result<Status> {
    let args = args.measuring;
    if args.variants.old.is_some() || !args.variants.variant.is_empty() {
        if args.variants.variant.len() == 1 {
            bail!("one --variant is nothing to compare\nhint: give a second one, or use 'run'");
        }
        return run::run(args);
    }
    let sources = source::read(&args.targets, &mut || args.store.open())?;
    let baseline = args.variants.baseline.as_deref();
    let settings = args.comparison.settings(&args.selection.metric, baseline);
    let (findings, session) = match &sources[..] {
        [only] => (
            within(&only.session, &args.comparison, &args)?,
            &only.session,
        ),
        many => {
            let sources: Vec<(String, &Session, Option<String>)> = many
                .iter()
                .map(|s| (s.label.clone(), &s.session, s.variant.clone()))
                .collect();
            (analysis::across(&sources, &settings), &many[0].session)
        }
    };
    let output = args.output.settings();
    let mut document = document_of(session, &findings, &args.study, &settings, &output)?;
    document.append(report::circumstances(&measured(&sources), &findings));
    args.output.print(&document)?;
    Ok(gate::judge(&findings, args.comparison.fail_on))
}

/// The sessions behind the sources, each once, by name where there are several.
fn measured(sources: &[Source]) -> Vec<(Option<&str>, &Session)> {
    let mut sessions: Vec<(Option<&str>, &Session)> = Vec::new();
    for source in sources {
        if sessions
            .iter()
            .all(|(_, known)| known.id != source.session.id)
        {
            sessions.push((Some(source.label.as_str()), &source.session));
        }
    }
    if let [(name, _)] = &mut sessions[..] {
        *name = None;
    }
    sessions
}

fn within(
    session: &Session,
    comparison: &ComparisonArgs,
    args: &RunArgs,
) -> anyhow::Result<Findings> {
    if session.variants.len() < 2 {
        bail!(
            "only one variant to compare: '{}'\nhint: name a second source, or measure with --old and --new",
            session.variants.first().map_or("none", |v| v.name.as_str())
        );
    }
    let settings = comparison.settings(&args.selection.metric, args.variants.baseline.as_deref());
    Ok(analysis::of(session, &settings))
}

//! Reports a measured experiment, writes its output files, and picks the exit status.

use super::gate::Gate;
use super::options::OutputArgs;
use super::options::Task;
use super::{Status, status};
use speedwell_analysis::Findings;
use speedwell_analysis::experiment::analyse;
use speedwell_model::{DefinitionFile, Session};
use speedwell_report::{self as report, Output};
use speedwell_suite::experiment::{Experiment, Output as Wanted};
use std::path::PathBuf;

/// Reports an experiment, writes the files that it declares unless `-o` names others, and evaluates
/// its gates.
///
/// # Errors
/// Fails if an output cannot be written.
pub fn conclude(
    session: &Session,
    written: &DefinitionFile,
    task: &Task,
) -> anyhow::Result<Status> {
    let experiment = Experiment::parse(written)?;
    let found = analyse(session, &experiment, &task.settings);
    let shown = Output {
        flames: task.profile,
        ..task.output.settings()
    };
    let mut document = report::experiment(&found, &experiment, &shown);
    document.append(report::circumstances(
        &[(None, session)],
        &Findings::default(),
    ));
    let output = OutputArgs {
        output: if task.output.output.is_empty() {
            files(&experiment, document.charts().next().is_some())
        } else {
            task.output.output.clone()
        },
        ..task.output.clone()
    };
    let outcome = found.gate(&experiment, session, task.fail_on);
    let gate = Gate::of(outcome, status::of_failures(&found.failures));
    gate.add_to(&mut document, &output);
    output.print(&document)?;
    Ok(gate.status())
}

/// Returns the output files that the experiment declares: named after it, in the current folder.
/// Markdown needs its charts as separate files.
fn files(experiment: &Experiment, has_charts: bool) -> Vec<PathBuf> {
    let forms = experiment.outputs.iter().flat_map(|output| match output {
        Wanted::Report(forms) => forms.as_slice(),
        _ => &[],
    });
    let endings = forms.flat_map(|form| match form.as_str() {
        "markdown" if has_charts => vec!["md", "svg"],
        "markdown" => vec!["md"],
        other => vec![other],
    });
    endings
        .map(|ending| PathBuf::from(format!("{}.{ending}", experiment.name)))
        .collect()
}

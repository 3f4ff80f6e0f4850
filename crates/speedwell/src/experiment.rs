//! Reports a measured experiment, writes its output files, and picks the exit status.

use super::gate::CommandGate;
use super::options::MeasureTask;
use super::options::OutputArgs;
use super::{CommandStatus, status};
use speedwell_analysis::AnalysisFindings;
use speedwell_analysis::experiment::analyze_experiment;
use speedwell_config::experiment::{Experiment, ReportOutput as Wanted};
use speedwell_model::{DefinitionFile, Session};
use speedwell_report::{self as report, OutputOptions};
use std::path::PathBuf;

/// Reports an experiment, writes its output files, and evaluates its gates. `-o` overrides the
/// declared output files.
///
/// # Errors
/// Fails if an output cannot be written.
pub fn report_experiment(
    session: &Session,
    definition: &DefinitionFile,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    let experiment = Experiment::parse(definition)?;
    let findings = analyze_experiment(session, &experiment, &task.settings);
    let options = OutputOptions { flames: task.profile, ..task.output.report_settings() };
    let mut document = report::report_experiment(&findings, &experiment, &options);
    document.append_document(report::report_measurement_details(
        &[(None, session)],
        &AnalysisFindings::default(),
    ));
    let output = OutputArgs {
        output: if task.output.output.is_empty() {
            declared_files(&experiment, document.charts().next().is_some())
        } else {
            task.output.output.clone()
        },
        ..task.output.clone()
    };
    let outcome = findings.judge_gates(&experiment, session, task.fail_on);
    let gate = CommandGate::from_outcome(outcome, status::status_of_failures(&findings.failures));
    gate.add_to(&mut document, &output);
    output.print_document(&document)?;
    Ok(gate.exit_status())
}

/// Returns the declared output files, named after the experiment and in the current folder. A
/// Markdown report has its charts in a separate file.
fn declared_files(experiment: &Experiment, has_charts: bool) -> Vec<PathBuf> {
    let formats = experiment.outputs.iter().flat_map(|output| match output {
        Wanted::Report(formats) => formats.as_slice(),
        _ => &[],
    });
    let extensions = formats.flat_map(|format| match format.as_str() {
        "markdown" if has_charts => vec!["md", "svg"],
        "markdown" => vec!["md"],
        other => vec![other],
    });
    extensions.map(|extension| PathBuf::from(format!("{}.{extension}", experiment.name))).collect()
}

//! Builds the report of `speedwell iterations`: the number of iterations that each benchmark file
//! needs.

use super::output::OutputOptions;
use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::figure::format_count;
use crate::table::{ReportCell, TextEmphasis};
use speedwell_analysis::iterations::IterationLevel;

/// The outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IterationsOutcome {
    /// Some number of iterations is enough.
    Steady,
    /// No tried number is enough. The report shows the steadiest one.
    Unsteady,
    /// Samples are too short even with the largest number of iterations.
    TooShort,
    /// Runs failed.
    Failed,
}

impl IterationsOutcome {
    /// The name of the outcome, for people and for files.
    pub fn outcome_name(self) -> &'static str {
        match self {
            IterationsOutcome::Steady => "steady",
            IterationsOutcome::Unsteady => "not steady",
            IterationsOutcome::TooShort => "too short",
            IterationsOutcome::Failed => "failed",
        }
    }
}

/// A benchmark file with its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct IterationsOfFile {
    /// `group/name` of the file.
    pub file: String,
    /// The outcome of the search.
    pub outcome: IterationsOutcome,
    /// The number of iterations that is enough, or else the steadiest one. Includes the variation
    /// of the results.
    pub level: Option<IterationLevel>,
}

/// Builds the report. `parameter` names the parameter that sets the number of iterations.
pub fn report_iterations(
    files: &[IterationsOfFile],
    parameter: &str,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("iterations");
    let is_steady = |file: &&IterationsOfFile| file.outcome == IterationsOutcome::Steady;
    let steady = files.iter().filter(is_steady).count();
    document.push(ReportBlock::Headline(format!(
        "sufficient {parameter} found for {steady} of {}",
        format_count(files.len(), "benchmark file", "benchmark files")
    )));
    let table = iterations_columns(parameter).build_table("iterations", files);
    document.push(ReportBlock::Table(table));
    output.add_detail(&mut document, |_, document| {
        document.push(ReportBlock::Note(
            "CV: standard deviation of the runs divided by their mean, averaged over the cases; \
             max CV: the CV of the case that varies most; shortest sample: duration of a sample of \
             the quickest case. Where no number is enough, the steadiest number is shown."
                .into(),
        ));
    });
    document
}

/// The sort keys of the table.
pub fn sort_keys() -> Vec<&'static str> {
    iterations_columns("n").sort_keys()
}

fn iterations_columns(parameter: &str) -> ColumnSet<IterationsOfFile> {
    let parameter = parameter.to_owned();
    column_set! { file: IterationsOfFile;
        identifier("file", "file") => &file.file,
        machine("parameter") => &parameter,
        figure("n", "iterations") =>
            file.level.as_ref().map(|level| ReportCell::large_count(level.n as usize)),
        words("outcome", "outcome") => outcome_cell(file.outcome),
        figure("cv", "CV") => ReportCell::share(file.level.as_ref().map(|level| level.spread.mean)),
        figure("max_cv", "max CV") => ReportCell::share(worst_case(file).map(|(_, cv)| cv)),
        machine("max_cv_case") => worst_case(file).map_or("", |(name, _)| name),
        machine("cases") => file.level.as_ref().map_or(0, |level| level.names.len()),
        figure("shortest_ns", "shortest sample") => ReportCell::time(shortest_ns(file)),
    }
}

fn outcome_cell(outcome: IterationsOutcome) -> ReportCell {
    let emphasis = match outcome {
        IterationsOutcome::Steady => TextEmphasis::Good,
        IterationsOutcome::Failed => TextEmphasis::Bad,
        _ => TextEmphasis::Caution,
    };
    ReportCell::words(outcome.outcome_name()).with_emphasis(emphasis)
}

/// Returns the case that varies most, with its coefficient of variation.
fn worst_case(file: &IterationsOfFile) -> Option<(&str, f64)> {
    file.level.as_ref()?.cases().max_by(|a, b| a.1.total_cmp(&b.1))
}

fn shortest_ns(file: &IterationsOfFile) -> Option<f64> {
    Some(file.level.as_ref()?.shortest_ns? as f64)
}

//! Builds the report of `speedwell iterations`: the number of iterations that each benchmark file
//! needs.

use super::output::OutputOptions;
use crate::document::{Document, ReportBlock};
use crate::figure::{Uncertainty, format_count, format_number, format_quantity, format_share};
use crate::table::{ColumnKind, ColumnSet, ReportCell, ReportColumn, TextEmphasis};
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
    let worst_case = |file: &IterationsOfFile| {
        let cases = file.level.as_ref()?.cases();
        let (name, variation) = cases.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((name.to_owned(), variation))
    };
    let parameter = parameter.to_owned();
    let mut columns = ColumnSet::new();
    columns.add_column(
        ReportColumn::new("file", "file", ColumnKind::Identifier),
        |file: &IterationsOfFile| ReportCell::words(file.file.clone()),
    );
    columns.add_value("parameter", move |_| parameter.clone());
    columns.add_column(ReportColumn::figure("n", "iterations"), |file| match &file.level {
        Some(level) => ReportCell::value(level.n).with_text(format_number(level.n as f64, 0)),
        None => ReportCell::figure(None),
    });
    columns.add_column(ReportColumn::words("outcome", "outcome"), |file| {
        let emphasis = match file.outcome {
            IterationsOutcome::Steady => TextEmphasis::Good,
            IterationsOutcome::Failed => TextEmphasis::Bad,
            _ => TextEmphasis::Caution,
        };
        ReportCell::words(file.outcome.outcome_name()).with_emphasis(emphasis)
    });
    columns.add_column(ReportColumn::figure("cv", "CV"), |file| {
        ReportCell::shown_figure(file.level.as_ref().map(|level| level.spread.mean), format_share)
    });
    columns.add_column(ReportColumn::figure("max_cv", "max CV"), move |file| {
        ReportCell::shown_figure(worst_case(file).map(|(_, variation)| variation), format_share)
    });
    columns.add_value("max_cv_case", move |file| {
        worst_case(file).map(|(name, _)| name).unwrap_or_default()
    });
    columns.add_value("cases", |file| file.level.as_ref().map_or(0, |level| level.names.len()));
    columns.add_column(ReportColumn::figure("shortest_ns", "shortest sample"), |file| {
        let shortest_ns = file.level.as_ref().and_then(|level| level.shortest_ns);
        ReportCell::shown_figure(shortest_ns.map(|ns| ns as f64), |ns| {
            format_quantity(ns, "ns", Uncertainty::Unknown)
        })
    });
    columns
}

//! Which number of iterations is enough for benchmark files: the report of `iterations`.

use super::output::Output;
use crate::document::{Block, Document};
use crate::figure::{Uncertainty, count, quantity, share, spell};
use crate::table::{Cell, Column, Columns, Emphasis, Kind};
use speedwell_analysis::iterations::Level;

/// What a search came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IterationsOutcome {
    /// The number is enough.
    Steady,
    /// The number is the steadiest of those tried, and not enough.
    Unsteady,
    /// Samples are too short with the largest number.
    TooShort,
    /// Runs failed.
    Failed,
}

impl IterationsOutcome {
    /// For people and for files.
    pub fn words(self) -> &'static str {
        match self {
            IterationsOutcome::Steady => "steady",
            IterationsOutcome::Unsteady => "not steady",
            IterationsOutcome::TooShort => "too short",
            IterationsOutcome::Failed => "failed",
        }
    }
}

/// A benchmark file and what was found for it.
#[derive(Debug, Clone, PartialEq)]
pub struct IterationsOfFile {
    /// `group/name` of the file.
    pub file: String,
    /// What the search came to.
    pub outcome: IterationsOutcome,
    /// The number with its variation: the one that is enough, or the steadiest.
    pub level: Option<Level>,
}

/// The report; `parameter` is the one that counts iterations.
pub fn iterations(files: &[IterationsOfFile], parameter: &str, output: &Output) -> Document {
    let mut document = Document::new("iterations");
    let is_steady = |of: &&IterationsOfFile| of.outcome == IterationsOutcome::Steady;
    let steady = files.iter().filter(is_steady).count();
    document.push(Block::Headline(format!(
        "{parameter} that is enough: found for {steady} of {}",
        count(files.len(), "benchmark file", "benchmark files")
    )));
    let table = columns(parameter).table("iterations", files);
    document.push(Block::Table(table));
    output.add_detail(&mut document, |_, document| {
        document.push(Block::Note(
            "CV: standard deviation of the runs divided by their mean, in the mean over the cases, and of the case \
             that varies most; shortest sample: of the quickest case. Where no number is enough, the steadiest is shown."
                .into(),
        ));
    });
    document
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    columns("n").sort_keys()
}

fn columns(parameter: &str) -> Columns<IterationsOfFile> {
    let worst = |file: &IterationsOfFile| {
        let cases = file.level.as_ref()?.cases();
        let (name, variation) = cases.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((name.to_owned(), variation))
    };
    let parameter = parameter.to_owned();
    let mut columns = Columns::new();
    columns.add(
        Column::new("file", "file", Kind::Identifier),
        |file: &IterationsOfFile| Cell::words(file.file.clone()),
    );
    columns.add_value("parameter", move |_| parameter.clone());
    columns.add(Column::figure("n", "iterations"), |file| {
        match &file.level {
            Some(level) => Cell::value(level.n).shown(spell(level.n as f64, 0)),
            None => Cell::figure(None),
        }
    });
    columns.add(Column::words("outcome", "outcome"), |file| {
        let emphasis = match file.outcome {
            IterationsOutcome::Steady => Emphasis::Good,
            IterationsOutcome::Failed => Emphasis::Bad,
            _ => Emphasis::Caution,
        };
        Cell::words(file.outcome.words()).emphasised(emphasis)
    });
    columns.add(Column::figure("cv", "CV"), |file| {
        Cell::shown_figure(file.level.as_ref().map(|level| level.spread.mean), share)
    });
    columns.add(Column::figure("cv_most", "greatest CV"), move |file| {
        Cell::shown_figure(worst(file).map(|(_, variation)| variation), share)
    });
    columns.add_value("case_most", move |file| {
        worst(file).map(|(name, _)| name).unwrap_or_default()
    });
    columns.add_value("cases", |file| {
        file.level.as_ref().map_or(0, |level| level.names.len())
    });
    columns.add(Column::figure("shortest_ns", "shortest sample"), |file| {
        let shortest_ns = file.level.as_ref().and_then(|level| level.shortest_ns);
        Cell::shown_figure(shortest_ns.map(|ns| ns as f64), |ns| {
            quantity(ns, "ns", Uncertainty::Unknown)
        })
    });
    columns
}

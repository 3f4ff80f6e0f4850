//! Which number of iterations is enough for benchmark files: the report of `iterations`.

use super::output::{Output, Verbosity};
use crate::document::{Block, Document, Emphasis};
use crate::figure::{Uncertainty, count, quantity, share, spell};
use crate::table::{Cell, Column, Field, Kind, keys, table_of};
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
    let table = table_of("iterations", fields(parameter), files);
    document.push(Block::Table(table));
    if output.verbosity != Verbosity::Quiet {
        document.push(Block::Note(
            "CV: standard deviation of the runs divided by their mean, in the mean over the cases, and of the case \
             that varies most; shortest sample: of the quickest case. Where no number is enough, the steadiest is shown."
                .into(),
        ));
    }
    document
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    keys(&fields("n"))
}

fn fields(parameter: &str) -> Vec<Field<IterationsOfFile>> {
    let worst = |of: &IterationsOfFile| {
        let cases = of.level.as_ref()?.cases();
        let (name, variation) = cases.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((name.to_owned(), variation))
    };
    let percent = |of: Option<f64>| Cell::figure(of).shown(of.map(share).unwrap_or_default());
    let parameter = parameter.to_owned();
    vec![
        Field::new(
            Column::new("file", "file", Kind::Identifier),
            |of: &IterationsOfFile| Cell::words(of.file.clone()),
        ),
        Field::machine("parameter", move |_: &IterationsOfFile| {
            Cell::value(parameter.clone())
        }),
        Field::new(
            Column::new("n", "iterations", Kind::Figure),
            |of: &IterationsOfFile| match &of.level {
                Some(level) => Cell::value(level.n).shown(spell(level.n as f64, 0)),
                None => Cell::figure(None),
            },
        ),
        Field::new(
            Column::new("outcome", "outcome", Kind::Words),
            |of: &IterationsOfFile| {
                let emphasis = match of.outcome {
                    IterationsOutcome::Steady => Emphasis::Good,
                    IterationsOutcome::Failed => Emphasis::Bad,
                    _ => Emphasis::Caution,
                };
                Cell::words(of.outcome.words()).emphasised(emphasis)
            },
        ),
        Field::new(
            Column::new("cv", "CV", Kind::Figure),
            move |of: &IterationsOfFile| percent(of.level.as_ref().map(|level| level.spread.mean)),
        ),
        Field::new(
            Column::new("cv_most", "greatest CV", Kind::Figure),
            move |of: &IterationsOfFile| percent(worst(of).map(|(_, variation)| variation)),
        ),
        Field::machine("case_most", move |of: &IterationsOfFile| {
            Cell::value(worst(of).map(|(name, _)| name).unwrap_or_default())
        }),
        Field::machine("cases", |of: &IterationsOfFile| {
            Cell::value(of.level.as_ref().map_or(0, |level| level.names.len()) as u64)
        }),
        Field::new(
            Column::new("shortest_ns", "shortest sample", Kind::Figure),
            |of: &IterationsOfFile| {
                let shortest_ns = of.level.as_ref().and_then(|level| level.shortest_ns);
                let shortest_ns = shortest_ns.map(|ns| ns as f64);
                let shown = shortest_ns.map(|ns| quantity(ns, "ns", Uncertainty::Unknown));
                Cell::figure(shortest_ns).shown(shown.unwrap_or_default())
            },
        ),
    ]
}

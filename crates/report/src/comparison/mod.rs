//! Baseline against candidates: the answer in words, then the table behind it.
//!
//! Which comparisons share a table is decided in `section.rs`; the words are chosen in
//! `headline.rs`, the columns in `columns.rs`, the explanations in `explain.rs`.

mod columns;
mod data;
mod explain;
mod headline;
mod highlights;
mod line;
mod section;
mod unmatched;

#[cfg(test)]
mod agreement;

pub use explain::{correction_words, method_words};
pub use line::{emphasis, symbol};

use super::case_labels::Line as LabelLine;
use super::charts::band;
use super::document::{Block, Document};
use super::field::{keys, row_of};
use super::footnotes::Footnotes;
use super::hoist::hoist;
use super::output::{Output, Verbosity};
use super::table::{Row, Table};
use section::{Section, sections};
use speedwell_analysis::Findings;

/// The name of the table, for machines.
pub const TABLE: &str = "changes";

/// The comparisons among `findings`, without failures, warnings and charts, which all reports share.
pub fn comparison(findings: &Findings, output: &Output) -> Document {
    let mut document = Document::new("comparison");
    let sections = sections(&findings.comparisons);
    for section in &sections {
        if sections.len() > 1 {
            document.push(Block::Heading {
                level: 2,
                text: section.title(&findings.comparisons),
            });
        }
        for comparison in &section.comparisons {
            let sentence = headline::headline(comparison, findings.ended_after);
            document.push(Block::Headline(section.subject(comparison) + &sentence));
        }
        add_section(section, output, &mut document);
    }
    for note in explain::notes(&findings.comparisons, output.verbosity) {
        document.push(Block::Note(note));
    }
    document.attach("comparisons", data::comparisons(&findings.comparisons));
    document
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    keys(&columns::fields(
        &columns::Headers::default(),
        Verbosity::Normal,
    ))
}

fn add_section(section: &Section<'_>, output: &Output, document: &mut Document) {
    if output.verbosity != Verbosity::Quiet {
        document
            .blocks
            .extend(highlights::highlights(section.first()));
    }
    if section
        .comparisons
        .iter()
        .any(|comparison| !comparison.rows.is_empty())
    {
        document.push(Block::Table(table(section, output)));
        let shared = line::shared_remarks(&section.named().places);
        document.blocks.extend(shared.into_iter().map(Block::Note));
    }
    document
        .blocks
        .extend(unmatched::unmatched(&section.comparisons, output.verbosity));
}

fn table(section: &Section<'_>, output: &Output) -> Table {
    let mut footnotes = Footnotes::default();
    let named = section.named();
    let mut lines = line::prepare(named.places, output.unit, &mut footnotes);
    let unit = hoist(&mut lines, |line| &mut line.unit);
    let runs = hoist(&mut lines, |line| &mut line.runs);
    let fields = columns::fields(&columns::Headers::of(section), output.verbosity);
    let mut rows = Vec::new();
    for label in named.lines {
        match label {
            LabelLine::Group(name) => rows.push(Row::Group(name)),
            LabelLine::Case { index, name } => {
                lines[index].name = name;
                rows.push(row_of(&fields, &lines[index]));
                rows.extend(lines[index].remark().map(Row::Remark));
            }
        }
    }
    let caption = [
        Some(named.shared),
        explain::caption(&section.comparisons, unit, runs),
    ];
    Table {
        caption: caption
            .into_iter()
            .flatten()
            .filter(|line| !line.is_empty())
            .collect(),
        columns: fields.into_iter().map(|field| field.column).collect(),
        rows,
        footnotes: footnotes.into_texts(),
        band: band(section.first()),
        ..Table::new(TABLE)
    }
}

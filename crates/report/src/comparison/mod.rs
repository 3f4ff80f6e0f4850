//! Baseline against candidates: the answer in words, then the table behind it.
//!
//! Which comparisons share a table is decided here: usually a table is one comparison and its rows are the cases. Where
//! a comparison has a single case there would be as many tables as metrics (a load test) or candidates (a contest of
//! one-liners); those become the rows of one table instead. Sentences are in `words.rs`, rows and columns in `rows.rs`.

#[cfg(test)]
mod agreement_tests;
pub mod machines;
mod rows;
mod words;

pub use rows::{emphasis, symbol};
pub use words::{correction_words, method_words, size};

use crate::case_labels::{CaseLabels, Line, Line as LabelLine, distinct};
use crate::charts::MOST_DRAWN_RUNS;
use crate::charts::band;
use crate::comparison::rows::Place;
use crate::document::{Block, Document};
use crate::figure::{change_with_interval, count, direction};
use crate::output::{Output, Verbosity};
use crate::table::{Footnotes, Name, Row, Table, number, take_common};
use serde_json::{Value, json};
use speedwell_analysis::{CaseComparison, Comparison, Correction, Findings, Method};
use speedwell_model::{Estimate, Failure, Verdict};
use std::sync::Arc;

/// The name of the table, for machines.
pub const TABLE: &str = "changes";

/// The comparisons among `findings`, without failures, warnings and charts, which all reports share.
pub fn comparison(findings: &Findings, output: &Output) -> Document {
    let mut document = Document::new("comparison");
    let sections = sections(&findings.comparisons);
    for section in &sections {
        if sections.len() > 1 {
            document.push_heading(2, section.title(&findings.comparisons));
        }
        for comparison in &section.comparisons {
            let subject = section.subject(comparison);
            // The sentence names the metric, unless it stands in front.
            let change = match &*subject {
                "" => &*comparison.metric.name,
                _ => "change",
            };
            let (ended_after, failures) = (findings.ended_after, &findings.failures);
            let sentence = words::headline(comparison, change, ended_after, failures);
            document.push(Block::Headline(subject + &sentence));
        }
        add_section(section, &findings.failures, output, &mut document);
    }
    output.add_detail(&mut document, |output, document| {
        let notes = words::notes(&findings.comparisons, output.verbosity);
        document.extend(notes.into_iter().map(Block::Note));
    });
    document.attach("comparisons", comparisons(&findings.comparisons));
    document
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    rows::columns(["", "", ""], 0.0, Verbosity::Normal).sort_keys()
}

fn add_section(
    section: &Section<'_>,
    failures: &[Failure],
    output: &Output,
    document: &mut Document,
) {
    output.add_detail(document, |_, document| {
        document.extend(highlights(section.first()));
    });
    if section
        .comparisons
        .iter()
        .any(|comparison| !comparison.rows.is_empty())
    {
        document.push(Block::Table(table(section, output)));
        let shared = rows::shared_remarks(&section.named().places);
        document.extend(shared.into_iter().map(Block::Note));
        let of_machines = section
            .comparisons
            .iter()
            .flat_map(|comparison| machines::notes(comparison));
        document.extend(distinct(of_machines).into_iter().map(Block::Note));
    }
    document.extend(unmatched(&section.comparisons, failures, output.verbosity));
}

fn table(section: &Section<'_>, output: &Output) -> Table {
    let mut footnotes = Footnotes::default();
    let named = section.named();
    let mut lines = rows::prepare(named.places, output.unit, &mut footnotes);
    let unit = take_common(&mut lines, |line| &mut line.unit);
    let runs = take_common(&mut lines, |line| &mut line.runs);
    let headers = [
        section.names_header(),
        section.baseline_header(),
        section.candidate_header(),
    ];
    let mut columns = rows::columns(headers, section.first().confidence, output.verbosity);
    let mut of_section = section
        .comparisons
        .iter()
        .flat_map(|comparison| &comparison.rows);
    if of_section.any(|row| row.baseline.exposure.known_share().is_some()) {
        rows::add_disturbance(&mut columns);
    }
    let all: Vec<&CaseComparison> = lines.iter().map(|line| line.row).collect();
    machines::add_columns(&mut columns, &all, output.verbosity);
    let runs_of = |row: &&CaseComparison| row.baseline.runs.len() + row.candidate.runs.len();
    if all.iter().map(runs_of).sum::<usize>() > MOST_DRAWN_RUNS
        && let Some(audience) = output.audience()
    {
        columns.keep_those_for(audience);
    }
    let mut rows = Vec::new();
    for label in named.lines {
        match label {
            LabelLine::Group(name) => rows.push(Row::Group(name)),
            LabelLine::Case { index, name } => {
                lines[index].name = name;
                rows.push(columns.row(&lines[index]));
                rows.extend(lines[index].remark().map(Row::Remark));
            }
        }
    }
    let caption = [
        Some(named.shared),
        words::caption(&section.comparisons, unit, runs),
    ];
    Table {
        caption: caption
            .into_iter()
            .flatten()
            .filter(|line| !line.is_empty())
            .collect(),
        footnotes: footnotes.into_texts(),
        band: band(section.first()),
        ..columns.table_of_rows(TABLE, rows)
    }
}

/// Comparisons that share a table; never empty.
#[derive(Debug)]
pub struct Section<'a> {
    /// What the rows are.
    pub rows: Rows,
    /// Its comparisons, all against the same baseline unless its rows are pairs.
    pub comparisons: Vec<&'a Comparison>,
}

/// What the rows of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Cases, of one comparison.
    Cases,
    /// Metrics of a single case.
    Metrics,
    /// Candidates in a single case.
    Candidates,
    /// Pairs with baselines of their own, in a single case.
    Pairs,
}

/// The rows of a table with their names.
pub struct Named<'a> {
    /// What all rows share; may be empty.
    pub shared: String,
    /// Headings and rows in the order of the table.
    pub lines: Vec<Line>,
    /// What each index of `lines` means.
    pub places: Vec<Place<'a>>,
}

/// Sorts comparisons into tables; their order stays.
pub fn sections(comparisons: &[Comparison]) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for comparison in comparisons {
        let joined = sections
            .last_mut()
            .is_some_and(|section| section.join(comparison));
        if !joined {
            sections.push(Section {
                rows: Rows::Cases,
                comparisons: vec![comparison],
            });
        }
    }
    sections
}

impl<'a> Section<'a> {
    /// The comparison that stands for all where they agree.
    pub fn first(&self) -> &'a Comparison {
        self.comparisons[0]
    }

    /// Takes `other` in if it belongs to the same table.
    fn join(&mut self, other: &'a Comparison) -> bool {
        let first = self.first();
        if single_case(first).is_none() || single_case(first) != single_case(other) {
            return false;
        }
        let rows = match (
            first.baseline == other.baseline,
            first.candidate == other.candidate,
            first.metric == other.metric,
        ) {
            (true, true, false) => Rows::Metrics,
            (true, false, true) if self.rows != Rows::Pairs => Rows::Candidates,
            (_, _, true) => Rows::Pairs,
            _ => return false,
        };
        // Candidates of one baseline are pairs, too, as soon as there is another baseline.
        let widens = (self.rows, rows) == (Rows::Candidates, Rows::Pairs);
        if self.comparisons.len() > 1 && rows != self.rows && !widens {
            return false;
        }
        self.rows = rows;
        self.comparisons.push(other);
        true
    }

    /// What the section is about, given everything that is compared.
    pub fn title(&self, all: &[Comparison]) -> String {
        let first = self.first();
        if self.rows == Rows::Pairs {
            return first.metric.name.clone();
        }
        let sides = match self.rows {
            Rows::Candidates => format!("all against {}", first.baseline),
            _ => format!("{} against {}", first.candidate, first.baseline),
        };
        let several_sides = all.iter().any(|other| other.candidate != first.candidate);
        let several_metrics = all.iter().any(|other| other.metric != first.metric);
        match (several_sides, several_metrics && self.rows != Rows::Metrics) {
            (true, true) => format!("{}: {sides}", first.metric.name),
            (false, true) => first.metric.name.clone(),
            _ => sides,
        }
    }

    /// What tells the comparisons of this section apart, in front of a sentence about one of them.
    pub fn subject(&self, comparison: &Comparison) -> String {
        match self.rows {
            Rows::Metrics => format!("{}: ", comparison.metric.name),
            Rows::Cases | Rows::Candidates | Rows::Pairs => String::new(),
        }
    }

    /// The heading of the names.
    pub fn names_header(&self) -> &'static str {
        match self.rows {
            Rows::Cases => "case",
            Rows::Metrics => "metric",
            Rows::Candidates => "candidate",
            Rows::Pairs => "candidate against baseline",
        }
    }

    /// The heading of the baseline's figures.
    pub fn baseline_header(&self) -> &str {
        match self.rows {
            Rows::Pairs => "baseline",
            _ => &self.first().baseline,
        }
    }

    /// The heading of the candidates' figures.
    pub fn candidate_header(&self) -> &str {
        match self.rows {
            Rows::Candidates | Rows::Pairs => "candidate",
            Rows::Cases | Rows::Metrics => &self.first().candidate,
        }
    }

    /// The rows and their names.
    pub fn named(&self) -> Named<'a> {
        let rows = |comparison: &&'a Comparison| {
            let comparison = *comparison;
            comparison.rows.iter().map(move |row| (comparison, row))
        };
        let places: Vec<Place<'a>> = self.comparisons.iter().flat_map(rows).collect();
        if self.rows == Rows::Cases {
            let cases: Vec<_> = places
                .iter()
                .map(|(_, row)| Arc::clone(&row.case))
                .collect();
            let labels = CaseLabels::new(&cases);
            return Named {
                shared: labels.shared,
                lines: labels.lines,
                places,
            };
        }
        let line = |(index, (comparison, _)): (usize, &Place<'a>)| {
            let name = match self.rows {
                Rows::Metrics => metric_name(comparison),
                Rows::Cases | Rows::Candidates => Name::plain(comparison.candidate.as_str()),
                Rows::Pairs => Name {
                    full: format!("{} against {}", comparison.candidate, comparison.baseline),
                    short: format!("{} / {}", comparison.candidate, comparison.baseline),
                },
            };
            Line::Case { index, name }
        };
        let lines = places.iter().enumerate().map(line).collect();
        Named {
            shared: places[0].1.case.id(),
            lines,
            places,
        }
    }
}

fn single_case(comparison: &Comparison) -> Option<String> {
    match &comparison.rows[..] {
        [only] => Some(only.case.id()),
        _ => None,
    }
}

fn metric_name(comparison: &Comparison) -> Name {
    let metric = &comparison.metric;
    Name {
        full: format!("{} ({})", metric.name, direction(metric.better)),
        short: metric.name.clone(),
    }
}

/// A table up to this long shows its largest changes by itself.
const SHORT_TABLE: usize = 20;
/// Cases named on each side.
const NAMED_CHANGES: usize = 5;

/// Up to five of the worst and five of the best cases; nothing for a short table.
pub fn highlights(comparison: &Comparison) -> Vec<Block> {
    if comparison.rows.len() <= SHORT_TABLE {
        return Vec::new();
    }
    let mut items = Vec::new();
    for verdict in [Verdict::Worse, Verdict::Better] {
        items.extend(
            largest(comparison, verdict)
                .into_iter()
                .map(|row| item(row, verdict)),
        );
    }
    if items.is_empty() {
        return Vec::new();
    }
    vec![
        Block::Paragraph("Largest changes:".to_owned()),
        Block::List(items),
    ]
}

fn largest(comparison: &Comparison, verdict: Verdict) -> Vec<&CaseComparison> {
    let size = |row: &CaseComparison| row.change.map_or(0.0, |change| change.value.abs());
    let mut rows: Vec<_> = comparison.rows_that_are(verdict).collect();
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows.truncate(NAMED_CHANGES);
    rows
}

fn item(row: &CaseComparison, verdict: Verdict) -> String {
    let change = row
        .change
        .as_ref()
        .map(change_with_interval)
        .unwrap_or_default();
    format!("{} {verdict} {change} {}", symbol(verdict), row.case.id())
}

/// Cases named unless all are requested.
const NAMED_UNMATCHED: usize = 8;

/// A list for each side that has cases of its own.
pub fn unmatched(
    comparisons: &[&Comparison],
    failures: &[Failure],
    verbosity: Verbosity,
) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut sides: Vec<(&String, &Vec<String>)> = Vec::new();
    for comparison in comparisons {
        let both = [
            (&comparison.baseline, &comparison.only_baseline),
            (&comparison.candidate, &comparison.only_candidate),
        ];
        for side in both {
            if !side.1.is_empty() && !sides.contains(&side) {
                sides.push(side);
            }
        }
    }
    for (variant, ids) in sides {
        let cases = count(ids.len(), "case", "cases");
        blocks.push(Block::Paragraph(format!(
            "Not compared, only in {variant} ({cases}):"
        )));
        let named = if verbosity == Verbosity::Verbose {
            ids.len()
        } else {
            NAMED_UNMATCHED.min(ids.len())
        };
        let mut items: Vec<String> = (ids[..named].iter())
            .map(
                |id| match failed_partner(id, variant, comparisons, failures) {
                    Some(failed) => format!("{id}: {failed}"),
                    None => id.clone(),
                },
            )
            .collect();
        if named < ids.len() {
            items.push(format!("and {} more", ids.len() - named));
        }
        blocks.push(Block::List(items));
    }
    blocks
}

/// That the other side of a case failed, and how.
fn failed_partner(
    id: &str,
    variant: &str,
    comparisons: &[&Comparison],
    failures: &[Failure],
) -> Option<String> {
    let is_partner = |name: &str| {
        comparisons.iter().any(|of| {
            [(&of.baseline, &of.candidate), (&of.candidate, &of.baseline)]
                .iter()
                .any(|(own, other)| *own == variant && *other == name)
        })
    };
    let failure = failures.iter().find(|failure| {
        let is_case = failure.case.as_deref() == Some(id);
        is_case && failure.variant.as_deref().is_some_and(is_partner)
    })?;
    let partner = failure.variant.as_deref().unwrap_or_default();
    Some(format!("{partner} {}", failure.cause))
}

/// One object per comparison.
pub fn comparisons(comparisons: &[Comparison]) -> Value {
    comparisons.iter().map(comparison_data).collect()
}

fn comparison_data(comparison: &Comparison) -> Value {
    let of = |verdict| comparison.rows_that_are(verdict).count();
    let withheld = comparison.rows.iter().filter(|row| row.withheld.is_some());
    let mut data = json!({
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "metric": comparison.metric,
        "method": method(comparison.method),
        "confidence": comparison.confidence,
        "delta": comparison.delta,
        "correction": correction(comparison.correction),
        "cases": comparison.rows.len(),
        "verdicts": {
            "better": of(Verdict::Better),
            "worse": of(Verdict::Worse),
            "same": of(Verdict::Same),
            "unclear": of(Verdict::Unclear),
        },
        "overall": comparison.typical().as_ref().map(estimate),
        "range": comparison.range().map(|ends| ends.map(|end| number(end.value))),
        "only_baseline": comparison.only_baseline,
        "only_candidate": comparison.only_candidate,
    });
    let withheld = withheld.count();
    if withheld > 0 {
        data["verdicts"]["withheld"] = json!(withheld);
    }
    data
}

/// An estimate; ends that are not finite are `null`.
fn estimate(estimate: &Estimate) -> Value {
    json!({
        "value": number(estimate.value),
        "low": number(estimate.low),
        "high": number(estimate.high),
    })
}

/// Methods as `--method` names them.
fn method(method: Method) -> &'static str {
    match method {
        Method::Rank => "rank",
        Method::SignedRank => "signed-rank",
        Method::Welch => "welch",
        Method::MannWhitney => "mann-whitney",
        Method::Bootstrap => "bootstrap",
    }
}

/// Corrections as `--correct` names them.
fn correction(correction: Correction) -> &'static str {
    match correction {
        Correction::BenjaminiHochberg => "bh",
        Correction::Holm => "holm",
        Correction::None => "none",
    }
}

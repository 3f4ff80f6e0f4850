//! Which comparisons share a table, and what its rows are.
//!
//! Usually a table is one comparison and its rows are the cases. Where a comparison has a single case
//! there would be as many tables as metrics (a load test) or candidates (a contest of one-liners);
//! those become the rows of one table instead.

use super::line::Place;
use crate::case_labels::{CaseLabels, Line};
use crate::metric_words::direction;
use crate::table::Name;
use speedwell_analysis::Comparison;
use std::sync::Arc;

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
            let labels = CaseLabels::of(&cases);
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

//! Finds short names for the cases of one table. Also converts parameters to JSON, for programs.
//!
//! The caption of a table states once what all cases share. The heading of a benchmark states what
//! the benchmark's cases share. Rows show only what differs, so everything that a row omits is
//! stated further up. A short name also omits the names of parameters; the short heading then lists
//! them. Machine-readable columns contain full ids.

use crate::figure::join_texts;
use crate::table::{ReportRow, RowName, json_number};
use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value as Json};
use speedwell_model::{Case, ParameterValue, SnippetLanguage};
use std::borrow::Cow;
use std::hash::Hash;
use std::sync::Arc;
use unicode_width::UnicodeWidthStr as _;

/// Labels for a list of cases.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CaseLabels {
    /// What all cases share, for the caption: a benchmark, a folder, parameters. May be empty.
    pub shared: String,
    /// Headings and rows in the order of the table.
    pub lines: Vec<LabelLine>,
    /// Whether the last line so far belongs to a group with a heading.
    is_open: bool,
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq)]
pub enum LabelLine {
    /// A heading for the lines that follow. An empty heading ends the previous group.
    Group(RowName),
    /// The case at `index` of the input list.
    Case {
        /// Position in the list.
        index: usize,
        /// The case's name, without the parts stated above it.
        name: RowName,
    },
}

type ParameterPair<'a> = (&'a str, &'a ParameterValue);

impl CaseLabels {
    /// Creates labels for `cases`. Groups the cases of one benchmark; otherwise keeps the order of
    /// `cases`.
    pub fn new(cases: &[Arc<Case>]) -> CaseLabels {
        let has_snippets = cases.iter().any(|case| case.snippet_language().is_some());
        let named: Vec<Cow<'_, Case>> = cases.iter().map(|case| shown_case(case)).collect();
        let cases = &named[..];
        let all_cases: Vec<&Case> = cases.iter().map(|case| &**case).collect();
        // The number of processors does not name a lone benchmark.
        let is_processors = |(name, _): &(String, ParameterValue)| name == "gomaxprocs";
        let is_lone = cases.len() == 1 && !all_cases[0].values.iter().all(is_processors);
        let shared = if is_lone { Vec::new() } else { constant_parameters(&all_cases) };
        let names = distinct(all_cases.iter().map(|case| case.benchmark.as_str()));
        // A slash in code separates no folders.
        let folder = if has_snippets { "" } else { common_folder(&names) };
        let mut labels =
            CaseLabels { shared: format_caption(&names, folder, &shared), ..CaseLabels::default() };
        let mut members: IndexMap<&str, Vec<usize>> = IndexMap::new();
        for (index, case) in cases.iter().enumerate() {
            members.entry(&case.benchmark).or_default().push(index);
        }
        for (name, members) in members {
            let benchmark_cases: Vec<&Case> = members.iter().map(|&index| &*cases[index]).collect();
            let constant = constant_parameters(&benchmark_cases);
            let own_parameters: Vec<_> =
                constant.iter().copied().filter(|p| !shared.contains(p)).collect();
            let short = if names.len() == 1 { "" } else { &name[folder.len()..] };
            let heading = join_label(short, &own_parameters);
            if distinct(benchmark_cases.iter().map(|case| case.id())).len() == 1 {
                let full = if heading.is_empty() { name.to_owned() } else { heading };
                // The name of a benchmark identifies its only case.
                let short = if short.is_empty() { full.clone() } else { short.to_owned() };
                labels.add_single(&members, &RowName { full, short });
            } else {
                let varying = varying_parameters(&benchmark_cases, &constant);
                labels.add_group(heading, &varying, &members, &benchmark_cases);
            }
        }
        labels
    }

    /// Adds a line for each of `members`. All members are the same case, the only one of its
    /// benchmark.
    fn add_single(&mut self, members: &[usize], name: &RowName) {
        if self.is_open {
            self.lines.push(LabelLine::Group(RowName::default()));
            self.is_open = false;
        }
        let line = |&index: &usize| LabelLine::Case { index, name: name.clone() };
        self.lines.extend(members.iter().map(line));
    }

    /// Adds the cases of a benchmark below their heading.
    fn add_group(&mut self, heading: String, varying: &[&str], members: &[usize], cases: &[&Case]) {
        let short = format!("{heading} ({})", varying.join(", ")).trim_start().to_owned();
        self.lines.push(LabelLine::Group(RowName { full: heading, short }));
        self.is_open = true;
        let pairs = align_parameters(cases, varying, |name, value| format!("{name}={value}"));
        // The heading names the parameters.
        let values = align_parameters(cases, varying, |_, value| value.to_string());
        for ((&index, full), short) in members.iter().zip(pairs).zip(values) {
            self.lines.push(LabelLine::Case { index, name: RowName { full, short } });
        }
    }
}

/// Returns the case as people see it. The text of a snippet replaces its benchmark; snippets that
/// are variants of one case have no common text.
pub fn shown_case(case: &Case) -> Cow<'_, Case> {
    let Some(language) = case.snippet_language() else { return Cow::Borrowed(case) };
    let common_name = if language == SnippetLanguage::Sh { "commands" } else { "code" };
    Cow::Owned(case.with_snippet_text(common_name))
}

/// Returns the parameters that have the same value in every case, in the order of the first case.
fn constant_parameters<'a>(cases: &[&'a Case]) -> Vec<ParameterPair<'a>> {
    let Some(first) = cases.first() else { return Vec::new() };
    let is_same = |name: &str, value: &ParameterValue| {
        cases.iter().all(|case| case.value(name) == Some(value))
    };
    let pairs = first.values.iter().filter(|(name, value)| is_same(name, value));
    pairs.map(|(name, value)| (name.as_str(), value)).collect()
}

/// Returns the distinct elements of `items`, in order of first appearance.
pub fn distinct<T: Hash + Eq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    items.into_iter().collect::<IndexSet<T>>().into_iter().collect()
}

/// Returns the common folder of several benchmarks, with its slash, or an empty text.
fn common_folder<'a>(names: &[&'a str]) -> &'a str {
    let folder_of = |name: &'a str| &name[..name.rfind('/').map_or(0, |slash| slash + 1)];
    match names {
        [first, _, ..] if names.iter().all(|name| folder_of(name) == folder_of(first)) => {
            folder_of(first)
        }
        _ => "",
    }
}

fn format_caption(names: &[&str], folder: &str, shared: &[ParameterPair<'_>]) -> String {
    match names {
        [only] => join_label(only, shared),
        _ if folder.is_empty() => join_label("", shared),
        _ => join_label(&format!("{folder}*"), shared),
    }
}

fn join_label(name: &str, pairs: &[ParameterPair<'_>]) -> String {
    let parameters = pairs.iter().map(|(name, value)| format!("{name}={value}"));
    join_texts(" ", std::iter::once(name.to_owned()).chain(parameters))
}

/// Returns the names of the parameters that differ between cases.
fn varying_parameters<'a>(cases: &[&'a Case], constant: &[ParameterPair<'_>]) -> Vec<&'a str> {
    let names = cases.iter().flat_map(|case| &case.values).map(|(name, _)| name.as_str());
    distinct(names.filter(|name| !constant.iter().any(|(other, _)| other == name)))
}

/// Formats the parameters of each case, padded so that they line up across rows.
fn align_parameters(
    cases: &[&Case],
    names: &[&str],
    format: impl Fn(&str, &ParameterValue) -> String,
) -> Vec<String> {
    let text = |case: &Case, name: &str| case.value(name).map(|value| format(name, value));
    let mut labels = vec![String::new(); cases.len()];
    for name in names {
        let texts: Vec<String> =
            cases.iter().map(|case| text(case, name).unwrap_or_default()).collect();
        let widest = texts.iter().map(|text| text.width()).max().unwrap_or(0);
        for (label, text) in labels.iter_mut().zip(texts) {
            label.push_str(&text);
            label.push_str(&" ".repeat(widest - text.width() + 1));
        }
    }
    labels.iter().map(|label| label.trim_end().to_owned()).collect()
}

/// Builds the rows of a table: headings, and the result of `row` for each case index and name.
pub fn labelled_rows(
    lines: Vec<LabelLine>,
    mut row: impl FnMut(usize, RowName) -> ReportRow,
) -> Vec<ReportRow> {
    let line = |line| match line {
        LabelLine::Group(name) => ReportRow::Group(name),
        LabelLine::Case { index, name } => row(index, name),
    };
    lines.into_iter().map(line).collect()
}

/// Returns the parameters of a case as an object, in the order of the case.
pub fn parameters_json(case: &Case) -> Json {
    let pairs = case.values.iter().map(|(name, value)| (name.clone(), parameter_json(value)));
    Json::Object(pairs.collect::<Map<_, _>>())
}

/// Returns the value of a parameter.
pub fn parameter_json(value: &ParameterValue) -> Json {
    match value {
        ParameterValue::Bool(truth) => Json::Bool(*truth),
        ParameterValue::Number(figure) => json_number(*figure).unwrap_or(Json::Null),
        ParameterValue::Text(text) => Json::String(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ids: &[&str]) -> (String, Vec<String>) {
        let cases: Vec<_> = ids.iter().map(|id| Arc::new(Case::parse(id).unwrap())).collect();
        let labels = CaseLabels::new(&cases);
        let lines = labels.lines.into_iter().map(|line| match line {
            LabelLine::Group(name) => format!("# {} | {}", name.full, name.short),
            LabelLine::Case { index, name } => format!("{index} {} | {}", name.full, name.short),
        });
        (labels.shared, lines.collect())
    }

    #[test]
    fn labels_of_one_benchmark_are_aligned_and_show_only_differing_values() {
        let (shared, lines) =
            labels(&["g/a.js enc=utf8 len=16 n=5", "g/a.js enc=hex len=1024 n=5"]);
        assert_eq!(shared, "g/a.js n=5");
        assert_eq!(
            lines,
            ["#  | (enc, len)", "0 enc=utf8 len=16 | utf8 16", "1 enc=hex  len=1024 | hex  1024",]
        );
    }

    #[test]
    fn a_lone_benchmark_and_a_snippet_have_their_names() {
        let (shared, lines) = labels(&["p/Sum gomaxprocs=8"]);
        assert_eq!(
            (&*shared, &*lines),
            ("p/Sum gomaxprocs=8", &["0 p/Sum | p/Sum".to_owned()][..])
        );
        let (shared, lines) = labels(&["eval/node code=f(1/2)", "eval/node code=f(1/3)"]);
        assert_eq!((&*shared, &*lines[1]), ("", "1 f(1/3) | f(1/3)"));
        assert_eq!(labels(&["eval/sh n=1"]).0, "commands");
    }

    #[test]
    fn several_benchmarks_become_headings_below_their_common_folder() {
        let (shared, lines) = labels(&[
            "g/a n=5 x=1",
            "g/b n=5 y=1 z=7",
            "g/a n=5 x=2",
            "g/b n=5 y=2 z=7",
            "g/c n=5 v=3",
        ]);
        assert_eq!(shared, "g/* n=5");
        assert_eq!(
            lines,
            [
                "# a | a (x)",
                "0 x=1 | 1",
                "2 x=2 | 2",
                "# b z=7 | b z=7 (y)",
                "1 y=1 | 1",
                "3 y=2 | 2",
                "#  | ",
                "4 c v=3 | c",
            ]
        );
    }

    #[test]
    fn benchmarks_of_different_folders_keep_their_names() {
        let (shared, lines) = labels(&["g/a", "h/a"]);
        assert_eq!(shared, "");
        assert_eq!(lines, ["0 g/a | g/a", "1 h/a | h/a"]);
    }

    #[test]
    fn a_single_case_is_named_by_its_parameters_or_its_benchmark() {
        let (shared, lines) = labels(&["g/a n=5"]);
        assert_eq!((shared.as_str(), lines[0].as_str()), ("g/a", "0 n=5 | n=5"));
        assert_eq!(labels(&["g/a"]).1, ["0 g/a | g/a"]);
    }

    #[test]
    fn a_parameter_that_some_cases_lack_leaves_a_gap() {
        let (_, lines) = labels(&["a x=1 y=1", "a y=2"]);
        assert_eq!(lines[1..], ["0 x=1 y=1 | 1 1", "1     y=2 |   2"]);
    }

    #[test]
    fn the_same_case_of_two_variants_keeps_its_name() {
        let (shared, lines) = labels(&["g/a n=5", "g/a n=5"]);
        assert_eq!(shared, "g/a n=5");
        assert_eq!(lines, ["0 g/a | g/a", "1 g/a | g/a"]);
    }
}

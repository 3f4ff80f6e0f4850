//! Decides which comparisons share a table, and how its rows are named.
//!
//! Usually, a table shows one comparison, with a row per case. If all comparisons have the same
//! single case, one table shows them all, with a row per comparison: per metric of a load test, or
//! per candidate. Commands and other snippets share a table, with a group of rows per case.

use crate::case_labels::{CaseLabels, LabelLine, distinct, shown_case};
use crate::comparison::effect::metric_noun;
use crate::comparison::table::{CaseInComparison, ColumnHeadings, VerdictLine};
use crate::summary::metric_name;
use crate::table::{ColumnSet, ReportCell, ReportRow, RowName};
use indexmap::IndexMap;
use speedwell_analysis::{AnalysisFindings, CandidateComparison};
use speedwell_model::{Case, SnippetLanguage};
use std::path::Path;
use std::sync::Arc;

/// Comparisons that share a table; never empty.
#[derive(Debug)]
pub struct ComparisonSection<'a> {
    /// The kind of rows in the section's table.
    pub rows: SectionRows,
    /// The section's comparisons. All have the same baseline, unless the rows are pairs.
    pub comparisons: Vec<&'a CandidateComparison>,
}

/// The kind of rows in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionRows {
    /// Cases of one comparison.
    Cases,
    /// Metrics of a single case.
    Metrics,
    /// Candidates in a single case.
    Candidates,
    /// Pairs, each with its own baseline, in a single case.
    Pairs,
    /// Commands or other snippets: the baseline, then the candidates, for each case.
    Commands,
}

/// The rows of a table with their names.
pub struct NamedRows<'a> {
    /// The case, or the benchmark, folder or parameters, that all rows share, as text for the
    /// caption; may be empty.
    pub shared: String,
    /// Headings and rows in the order of the table.
    pub lines: Vec<LabelLine>,
    /// The case for each index in `lines`.
    pub cases: Vec<CaseInComparison<'a>>,
}

/// Groups comparisons into tables, keeping their order.
pub fn group_sections(comparisons: &[CandidateComparison]) -> Vec<ComparisonSection<'_>> {
    let mut sections: Vec<ComparisonSection<'_>> = Vec::new();
    for comparison in comparisons {
        if !sections.last_mut().is_some_and(|section| section.try_join(comparison)) {
            let rows = match snippet_language(comparison) {
                Some(_) => SectionRows::Commands,
                None => SectionRows::Cases,
            };
            sections.push(ComparisonSection { rows, comparisons: vec![comparison] });
        }
    }
    sections
}

impl<'a> ComparisonSection<'a> {
    /// Returns the first comparison, for properties that all comparisons share.
    pub fn first_comparison(&self) -> &'a CandidateComparison {
        self.comparisons[0]
    }

    /// Adds `other` if it belongs to the same table. Returns whether it was added.
    fn try_join(&mut self, other: &'a CandidateComparison) -> bool {
        let first = self.first_comparison();
        if self.has_commands_with(other) {
            self.rows = SectionRows::Commands;
            self.comparisons.push(other);
            return true;
        }
        if single_case(first).is_none() || single_case(first) != single_case(other) {
            return false;
        }
        let rows = match (
            first.baseline == other.baseline,
            first.candidate == other.candidate,
            first.metric == other.metric,
        ) {
            (true, true, false) => SectionRows::Metrics,
            (true, false, true) if self.rows != SectionRows::Pairs => SectionRows::Candidates,
            (_, _, true) => SectionRows::Pairs,
            _ => return false,
        };
        // Candidates of one baseline become pairs once there is another baseline.
        let has_candidates = matches!(self.rows, SectionRows::Candidates | SectionRows::Commands);
        let widens = has_candidates && rows == SectionRows::Pairs;
        if self.comparisons.len() > 1 && rows != self.rows && !widens {
            return false;
        }
        self.rows = rows;
        self.comparisons.push(other);
        true
    }

    /// Whether `other` has further commands for this section. Commands that failed have no case.
    fn has_commands_with(&self, other: &'a CandidateComparison) -> bool {
        let first = self.first_comparison();
        let all = self.comparisons.iter().copied().chain([other]);
        let mut languages = all.filter(|one| !one.rows.is_empty()).map(snippet_language);
        let language = languages.next().flatten();
        matches!(self.rows, SectionRows::Cases | SectionRows::Commands)
            && (&first.baseline, &first.metric) == (&other.baseline, &other.metric)
            && language.is_some()
            && languages.all(|one| one == language)
    }

    /// The language of the snippets, if the rows are snippets.
    fn language(&self) -> Option<SnippetLanguage> {
        self.comparisons.iter().find_map(|comparison| snippet_language(comparison))
    }

    /// Returns the section's title. `all` are the comparisons of all sections: the title names only
    /// what differs between them.
    pub fn section_title(&self, all: &[CandidateComparison]) -> String {
        let first = self.first_comparison();
        if self.rows == SectionRows::Pairs {
            return first.metric.name.clone();
        }
        let sides = match self.rows {
            SectionRows::Candidates | SectionRows::Commands => {
                format!("all against {}", first.baseline)
            }
            _ => format!("{} against {}", first.candidate, first.baseline),
        };
        let several_sides = all.iter().any(|other| other.candidate != first.candidate);
        let several_metrics = all.iter().any(|other| other.metric != first.metric);
        match (several_sides, several_metrics && self.rows != SectionRows::Metrics) {
            (true, true) => format!("{}: {sides}", first.metric.name),
            (false, true) => first.metric.name.clone(),
            _ => sides,
        }
    }

    /// Returns the headings of the table.
    pub fn column_headings(&self) -> ColumnHeadings {
        let CandidateComparison { baseline, candidate, metric, .. } = self.first_comparison();
        let is_shell = || self.language() == Some(SnippetLanguage::Sh);
        let (names, baseline, candidate) = match self.rows {
            SectionRows::Cases => ("case", Some(&**baseline), candidate.clone()),
            SectionRows::Metrics => ("metric", Some(&**baseline), candidate.clone()),
            SectionRows::Candidates => ("candidate", Some(&**baseline), "candidate".to_owned()),
            SectionRows::Pairs => {
                ("candidate against baseline", Some("baseline"), "candidate".to_owned())
            }
            SectionRows::Commands if is_shell() => ("command", None, metric_noun(metric)),
            SectionRows::Commands => ("code", None, metric_noun(metric)),
        };
        ColumnHeadings { names, baseline: baseline.map(str::to_owned), candidate }
    }

    /// The rows and their names.
    pub fn named_rows(&self) -> NamedRows<'a> {
        let compared_cases: Vec<CaseInComparison<'a>> = (self.comparisons.iter())
            .flat_map(|&comparison| comparison.rows.iter().map(move |row| (comparison, row)))
            .collect();
        if self.rows == SectionRows::Cases {
            let cases: Vec<_> =
                compared_cases.iter().map(|(_, row)| Arc::clone(&row.case)).collect();
            let labels = CaseLabels::new(&cases);
            return NamedRows { shared: labels.shared, lines: labels.lines, cases: compared_cases };
        }
        if self.rows == SectionRows::Commands {
            return name_commands(compared_cases);
        }
        let line = |(index, (comparison, _)): (usize, &CaseInComparison<'a>)| {
            let name = match self.rows {
                SectionRows::Metrics => metric_name(&comparison.metric),
                SectionRows::Pairs => RowName {
                    full: format!("{} against {}", comparison.candidate, comparison.baseline),
                    short: format!("{} / {}", comparison.candidate, comparison.baseline),
                },
                _ => RowName::plain(comparison.candidate.as_str()),
            };
            LabelLine::Case { index, name }
        };
        let lines = compared_cases.iter().enumerate().map(line).collect();
        let shared = shown_case(&compared_cases[0].1.case).id();
        NamedRows { shared, lines, cases: compared_cases }
    }
}

/// Groups commands by the parameters of their cases, if there are any.
fn name_commands(compared_cases: Vec<CaseInComparison<'_>>) -> NamedRows<'_> {
    let mut by_case: IndexMap<String, Vec<CaseInComparison<'_>>> = IndexMap::new();
    for (comparison, row) in compared_cases {
        by_case.entry(row.case.id()).or_default().push((comparison, row));
    }
    let (mut lines, mut cases) = (Vec::new(), Vec::new());
    for rows in by_case.into_values() {
        let values = rows[0].1.case.values.iter();
        let pairs: Vec<String> = values.map(|(name, value)| format!("{name}={value}")).collect();
        if !pairs.is_empty() {
            lines.push(LabelLine::Group(RowName::plain(pairs.join(" "))));
        }
        for (comparison, row) in rows {
            let name = RowName::plain(comparison.candidate.as_str());
            lines.push(LabelLine::Case { index: cases.len(), name });
            cases.push((comparison, row));
        }
    }
    NamedRows { shared: String::new(), lines, cases }
}

fn single_case(comparison: &CandidateComparison) -> Option<String> {
    let [only] = &comparison.rows[..] else { return None };
    Some(only.case.id())
}

// How commands, and other snippets that are compared by name, look in a comparison: they are the rows,
// the baseline first. Cases that differ in parameters only are groups of rows.

/// Whether the comparison shows commands or other snippets as rows.
pub fn shows_commands(findings: &AnalysisFindings) -> bool {
    findings.comparisons.iter().any(|comparison| snippet_language(comparison).is_some())
}

/// Returns the language of the snippets that are compared by name. Returns `None` if there is no
/// case, or the sides are something else, such as programs that execute the same snippet.
pub fn snippet_language(comparison: &CandidateComparison) -> Option<SnippetLanguage> {
    let (first, others) = comparison.rows.split_first()?;
    let language = case_language(&first.case)?;
    let is_same = others.iter().all(|row| case_language(&row.case) == Some(language));
    is_same.then_some(language)
}

fn case_language(case: &Case) -> Option<SnippetLanguage> {
    case.snippet_language().filter(|_| case.value("code").is_none())
}

/// Builds the row of the baseline, for the case of `line`.
pub fn baseline_row(columns: &ColumnSet<VerdictLine<'_>>, line: &VerdictLine<'_>) -> ReportRow {
    let baseline = &line.row.baseline;
    let name = RowName::plain(line.comparison.baseline.as_str());
    columns.build_reference(|key| match key {
        "case" => ReportCell::words(line.row.case.id()).with_name(&name),
        "candidate_shown" => {
            ReportCell::from(baseline.location).with_text(&line.figures_with_unit()[0])
        }
        "change_shown" => ReportCell::text("baseline"),
        "candidate_cv" => ReportCell::share(baseline.variation),
        _ => ReportCell::default(),
    })
}

/// Returns the comparison with shorter names of its sides, for sentences: `a.py` instead of
/// `python3 a.py`. Returns `None` unless all commands begin with the same words before a file name.
pub fn with_short_names(
    comparison: &CandidateComparison,
    findings: &AnalysisFindings,
) -> Option<CandidateComparison> {
    if snippet_language(comparison) != Some(SnippetLanguage::Sh) {
        return None;
    }
    let start = file_start(&distinct(findings.comparisons.iter().flat_map(side_names)))?;
    let [baseline, candidate] = side_names(comparison).map(|name| name[start..].to_owned());
    Some(CandidateComparison { baseline, candidate, ..comparison.clone() })
}

fn side_names(comparison: &CandidateComparison) -> [&str; 2] {
    [comparison.baseline.as_str(), comparison.candidate.as_str()]
}

/// Returns the length of the words that all commands begin with, if a file name follows in each.
fn file_start(commands: &[&str]) -> Option<usize> {
    let first = commands.first()?;
    let is_shared =
        |start: &usize| commands.iter().all(|command| command.starts_with(&first[..*start]));
    let mut shared = first.match_indices(' ').map(|(space, _)| space + 1).take_while(is_shared);
    shared.find(|start| commands.iter().all(|command| is_file_first(&command[*start..])))
}

/// Whether the first of these words is a file name with an extension, and not a number.
fn is_file_first(words: &str) -> bool {
    let word = words.split(' ').next().unwrap_or_default();
    let extension = Path::new(word).extension().and_then(|extension| extension.to_str());
    let is_extension = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.chars().all(char::is_alphanumeric)
    };
    !word.starts_with('-') && extension.is_some_and(is_extension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutputOptions;
    use speedwell_analysis::AnalysisSettings;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{Metric, MetricDirection};

    #[test]
    fn common_words_before_a_file_name_are_left_out() {
        for (commands, start) in [
            (&["python3 a.py", "python3 b.py"][..], Some(8)),
            (&["python3 -X dev a.py", "python3 -X dev b.py"], Some(15)),
            (&["python3 a.py -n 1", "python3 a.py -n 2"], Some(8)),
            (&["python3 a.py", "python3 b.py", "node c.js"], None),
            (&["sleep 0.1", "sleep 0.2"], None),
            (&["gzip -1 a.txt", "gzip -9 a.txt"], None),
            (&["ls", "ls -l"], None),
        ] {
            assert_eq!(file_start(commands), start, "{commands:?}");
        }
    }

    fn printed(cases: &[&str], names: &[&str]) -> String {
        let mut fake = FakeSession::with_fixed_blocks(names, 4);
        for case in cases {
            fake = fake.add_case(case, |name, run| {
                let place = names.iter().position(|other| *other == name).unwrap_or_default();
                1e6 * [1.0, 0.5, 2.0][place] + f64::from(run)
            });
        }
        let mut session = fake.build();
        session.metrics = vec![Metric::new(Metric::TIME, "ns", MetricDirection::Lower)];
        session.runs.iter_mut().for_each(|run| run.samples[0].metric = Metric::TIME.into());
        let findings = speedwell_analysis::analyze_session(&session, &AnalysisSettings::default());
        let document = crate::comparison::report_comparison(&findings, &OutputOptions::default());
        let mut out = Vec::new();
        crate::print_document(&document, &OutputOptions::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commands_are_rows_and_the_baseline_is_the_first() {
        let names = ["python3 a.py", "python3 b.py", "python3 c.py"];
        let text = printed(&["eval/sh"], &names);
        assert!(text.starts_with("b.py is 2"), "{text}");
        assert!(text.contains(" times as fast as a.py ["), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        let starts = ["command ", "───", names[0], names[1], names[2]];
        let header = lines.iter().position(|line| line.starts_with(starts[0])).unwrap();
        for (line, start) in lines[header..].iter().zip(starts) {
            assert!(line.starts_with(start), "{text}");
        }
        assert!(lines[header + 2].ends_with(" baseline"), "{text}");
        assert!(lines[header + 4].contains("▼ worse"), "{text}");
        assert!(text.contains("\n8 runs a side in random blocks.\n"), "{text}");
        assert!(!text.contains("eval/sh") && !text.contains("is better"), "{text}");
    }

    #[test]
    fn cases_are_groups_and_other_languages_have_code() {
        let text = printed(&["eval/node n=1", "eval/node n=2"], &["f(n)", "g(n)"]);
        let name = |line| str::split(line, "  ").find(|word| !word.is_empty());
        let names: Vec<&str> = text.lines().filter_map(name).collect();
        let header = names.iter().position(|name| *name == "code").unwrap();
        assert_eq!(names[header + 2..header + 8], ["n=1", "f(n)", "g(n)", "n=2", "f(n)", "g(n)"]);
    }

    #[test]
    fn programs_that_execute_the_same_snippet_are_columns() {
        let text = printed(&["eval/sh code=ls"], &["dash", "bash"]);
        assert!(text.contains("ls") && !text.contains("eval/sh"), "{text}");
        assert!(!text.contains("baseline"), "{text}");
    }
}

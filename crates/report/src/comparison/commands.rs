//! Decides how commands, and other snippets that are compared by name, look in a comparison: they
//! are the rows, the baseline first. Cases that differ in parameters only are groups of rows.

use crate::case_labels::distinct;
use crate::columns::ColumnSet;
use crate::comparison::VerdictLine;
use crate::table::{ReportCell, ReportRow, RowName};
use speedwell_analysis::{AnalysisFindings, CandidateComparison};
use speedwell_model::{Case, SnippetLanguage};
use std::path::Path;

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
    let starts = first.match_indices(' ').map(|(space, _)| space + 1);
    let is_shared =
        |start: &usize| commands.iter().all(|command| command.starts_with(&first[..*start]));
    let mut shared = starts.take_while(is_shared);
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

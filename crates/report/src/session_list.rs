//! Lists sessions on a page: each with its result, its commit and its age.
//!
//! Start at [`list_sessions_on_page`]. [`session_result`] finds the result of a session, which the
//! caller may keep. The list for the terminal is in `session.rs`.

use crate::cell::{verdict_emphasis, verdict_symbol};
use crate::comparison::first_answer;
use crate::document::Document;
use crate::figure::{
    MINUTE_MS, format_age, format_change, format_count, format_moment, join_texts, unless_empty,
};
use crate::session::{
    first_words, has_own_report, killed_note, load_sentence, revision_cell, state_cell,
    variant_names,
};
use crate::summary::summary_sentence;
use crate::table::{ColumnSet, ReportCell, TextEmphasis, column_set};
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings, CaseComparison};
use speedwell_model::stored::SessionOverview;
use speedwell_model::{Session, Verdict};
use std::collections::{HashMap, HashSet};

/// The result of a session in a few words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionResult {
    /// The words; empty if the session has no single result.
    pub text: String,
    /// Whether the result is good or bad.
    pub emphasis: TextEmphasis,
}

/// Returns the result of a session: the failed gate of a load, the largest change with its verdict,
/// the key figure with its unit, or why there is none.
pub fn session_result(session: &Session, settings: &AnalysisSettings) -> SessionResult {
    let plain = |text: String| SessionResult { text, emphasis: TextEmphasis::None };
    if session.runs.is_empty() {
        return failed_result(session);
    }
    if has_own_report(session) {
        return SessionResult::default();
    }
    if let Some(sentence) = load_sentence(session) {
        let mut gate_lines = session.design.gate_lines.iter();
        return match gate_lines.find(|line| line.starts_with("gate failed")) {
            Some(line) => SessionResult { text: line.clone(), emphasis: TextEmphasis::Bad },
            None => plain(first_words(&sentence)),
        };
    }
    let findings = analysis::analyze_session(session, settings);
    if !findings.comparisons.is_empty() {
        return comparison_result(&findings);
    }
    let Some(first) = findings.summaries.first() else { return SessionResult::default() };
    let words = first_words(&summary_sentence(first, None));
    let cases: HashSet<_> =
        findings.summaries.iter().map(|summary| (summary.case.id(), &summary.variant)).collect();
    plain(match cases.len() - 1 {
        0 => words,
        others => format!("{words}, and {}", format_count(others, "more case", "more cases")),
    })
}

/// Says why nothing was measured, if a step failed.
fn failed_result(session: &Session) -> SessionResult {
    let mut failures = session.failures.iter().filter(|failure| !failure.cause.is_skip());
    let result = |text: String| SessionResult { text, emphasis: TextEmphasis::Bad };
    failures.next().map(|failure| result(failure.reason_line())).unwrap_or_default()
}

/// Returns the headline of a single case; for several cases, the largest change and the number of
/// cases with each verdict.
fn comparison_result(findings: &AnalysisFindings) -> SessionResult {
    let compared = findings.comparisons.iter().flat_map(|comparison| {
        comparison.rows.iter().map(move |row| (comparison.candidate.as_str(), row))
    });
    let compared: Vec<(&str, &CaseComparison)> = compared.collect();
    let rows: Vec<&CaseComparison> = compared.iter().map(|(_, row)| *row).collect();
    if rows.len() < 2 {
        let words = first_words(&first_answer(findings));
        return match rows.first() {
            Some(row) => verdict_result(row.verdict, &words),
            None => SessionResult { text: words, emphasis: TextEmphasis::Bad },
        };
    }
    let verdicts = [Verdict::Worse, Verdict::Better, Verdict::Same, Verdict::Unclear];
    let count = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let counts =
        verdicts.map(|verdict| unless_empty(count(verdict), |count| format!("{count} {verdict}")));
    let counts = join_texts(", ", counts);
    let Some((candidate, row, size)) = largest_change(&compared) else {
        return SessionResult { text: counts, emphasis: TextEmphasis::Muted };
    };
    let name = row.case.name_under(candidate);
    verdict_result(row.verdict, &format!("{name} {size}; {counts}"))
}

fn verdict_result(verdict: Verdict, words: &str) -> SessionResult {
    let text = format!("{} {words}", verdict_symbol(verdict));
    SessionResult { text, emphasis: verdict_emphasis(verdict) }
}

/// Returns the decided case whose values changed by the largest factor, with its candidate and its
/// change as text.
fn largest_change<'a>(
    compared: &[(&'a str, &'a CaseComparison)],
) -> Option<(&'a str, &'a CaseComparison, String)> {
    let is_decided = |row: &CaseComparison| matches!(row.verdict, Verdict::Worse | Verdict::Better);
    let decided = compared.iter().filter(|(_, row)| is_decided(row));
    let sized = decided.filter_map(|(candidate, row)| {
        let change = row.change?;
        Some((*candidate, *row, (1.0 + change.value).ln().abs(), format_change(&change)))
    });
    let largest = sized.max_by(|(_, _, first, _), (_, _, second, _)| first.total_cmp(second));
    largest.map(|(candidate, row, _, size)| (candidate, row, size))
}

/// A session with its result, if it is known.
pub(crate) type ResultLine<'a> = (&'a SessionOverview, Option<&'a SessionResult>);

/// Lists sessions with their known results, which are looked up by number. With the time of the
/// request, `now_unix_ms`, the list shows ages instead of dates.
pub fn list_sessions_on_page(
    sessions: &[SessionOverview],
    results: &HashMap<i64, SessionResult>,
    now_unix_ms: Option<i64>,
) -> Document {
    let mut document = Document::new("sessions");
    let lines = sessions.iter().map(|session| (session, results.get(&session.number)));
    document.push_table(page_columns(now_unix_ms).build_table("sessions", lines));
    document.push_notes(killed_note(sessions.iter()));
    document
}

/// The columns of the list for people. Programs get the columns of the terminal's list.
fn page_columns<'a>(now_unix_ms: Option<i64>) -> ColumnSet<ResultLine<'a>> {
    let started = if now_unix_ms.is_some() { "started" } else { "started (UTC)" };
    column_set! { line: ResultLine<'a>;
        figure("number", "session") => ReportCell::session(line.0.number),
        machine("id") => &line.0.id,
        words("result", "result").for_people() => line.1.map(|result| {
            ReportCell::text(&result.text).with_emphasis(result.emphasis)
        }),
        words("subject", "commit").for_people() => line.0.origin.as_ref()
            .and_then(|origin| origin.subject.as_deref()).unwrap_or_default(),
        words("started_unix_ms", started) =>
            started_cell(line.0.started_unix_ms, now_unix_ms),
        words("state", "state") => state_cell(line.0),
        words("revision", "revision") => revision_cell(line.0),
        words("branch", "branch") => line.0.origin.as_ref()
            .and_then(|origin| origin.branch.as_deref()).unwrap_or_default(),
        words("tags", "tags") => ReportCell::words(line.0.tags.join(" "))
            .with_emphasis(TextEmphasis::Strong),
        words("variants", "variants") => ReportCell::words(line.0.variants.join(" "))
            .with_text(variant_names(line.0)),
        machine("cases") => line.0.cases,
        machine("runs") => line.0.runs,
        figure("failures", "failed") => ReportCell::from(line.0.failures)
            .shown_if(line.0.failures > 0).with_emphasis(TextEmphasis::Bad),
        machine("elapsed_ms") => line.0.elapsed_ms,
        machine("command") => line.0.command.join(" "),
    }
}

fn started_cell(unix_ms: i64, now_unix_ms: Option<i64>) -> ReportCell {
    let text = now_unix_ms.map_or_else(|| format_moment(unix_ms), |now| time_ago(unix_ms, now));
    ReportCell::value(unix_ms).with_text(text).with_moment(unix_ms)
}

/// Formats how long ago a moment was: `12 min ago`, `3 h ago`, `5 d ago`. A moment that is more than
/// 30 days ago, or in the future, becomes a date. `script.js` has the same words.
fn time_ago(unix_ms: i64, now_unix_ms: i64) -> String {
    let age_ms = now_unix_ms.saturating_sub(unix_ms);
    match age_ms.div_euclid(MINUTE_MS) {
        0 => "less than a minute ago".to_owned(),
        1..43_200 => format!("{} ago", format_age(age_ms)),
        _ => format_moment(unix_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;

    #[test]
    fn an_age_is_given_in_its_largest_unit() {
        let now = 1_769_868_300_000;
        let of = |minutes: i64| time_ago(now - minutes * MINUTE_MS, now);
        assert_eq!(of(0), "less than a minute ago");
        assert_eq!([of(1), of(59), of(60)], ["1 min ago", "59 min ago", "1 h ago"]);
        assert_eq!([of(1_439), of(1_440)], ["23 h ago", "1 d ago"]);
        assert_eq!([of(-1), of(43_200)], ["2026-01-31 14:06", "2026-01-01 14:05"]);
    }

    /// A comparison in which the first case gets 10% slower and the second three times as fast.
    fn compared() -> Session {
        let factor = |variant: &str, factor: f64| if variant == "new" { factor } else { 1.0 };
        FakeSession::with_fixed_blocks(&["old", "new"], 20)
            .lower_is_better()
            .add_case("g/slower n=1", |variant, block| {
                factor(variant, 1.1) * (1000.0 + f64::from(block % 7))
            })
            .add_case("g/faster n=1", |variant, block| {
                factor(variant, 0.3) * (1000.0 + f64::from(block % 5))
            })
            .build()
    }

    #[test]
    fn a_comparison_of_several_cases_is_answered_by_its_largest_change() {
        let result = session_result(&compared(), &AnalysisSettings::default());
        assert!(result.text.contains("g/faster n=1 -70"), "{result:?}");
        assert!(result.text.ends_with("; 1 worse, 1 better"), "{result:?}");
        assert_eq!(result.emphasis, TextEmphasis::Good);
    }

    #[test]
    fn a_session_without_a_comparison_is_answered_by_its_key_figure() {
        let session = FakeSession::with_fixed_blocks(&["default"], 8)
            .add_case("g/parse n=1", |_, block| 1000.0 + f64::from(block))
            .add_case("g/print n=1", |_, block| 2000.0 + f64::from(block))
            .build();
        let result = session_result(&session, &AnalysisSettings::default());
        assert!(result.text.starts_with("g/parse: 1"), "{result:?}");
        assert!(result.text.ends_with(", and 1 more case"), "{result:?}");
        let empty = Session { runs: Vec::new(), ..session };
        assert_eq!(
            session_result(&empty, &AnalysisSettings::default()),
            SessionResult::default(),
            "nothing was measured, and nothing failed"
        );
    }

    #[test]
    fn programs_get_the_columns_of_the_list_for_the_terminal() {
        let keys = |document: &Document| -> Vec<&'static str> {
            let table = document.tables().next().unwrap();
            table.for_machines().into_iter().map(|column| table.columns[column].key).collect()
        };
        let page = crate::SessionsPage { sessions: &[], number: 1, all: 0, is_chosen: false };
        let listed = list_sessions_on_page(&[], &HashMap::new(), Some(0));
        assert_eq!(keys(&listed), keys(&crate::list_sessions(&page)));
    }
}

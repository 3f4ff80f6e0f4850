//! Builds the report of one session of any kind, for `speedwell report @N` and a server's page.
//!
//! This module analyzes the session and adds the details of its measurement; `findings.rs` reports
//! the findings. The module also lists stored sessions, and the cases that a planned session would
//! measure. Start at [`report_session`].

#[cfg(test)]
mod by_cases_tests;

use crate::case_labels::parameters_json;
use crate::comparison::first_answer;
use crate::document::Document;
use crate::failures::report_failures;
use crate::figure::{format_about, format_count, format_duration, format_whole};
use crate::findings::{StudyChoice, report_findings, report_requested};
use crate::load::{loads_headline, report_load_session};
use crate::measurement_details::report_measurement_details_of;
use crate::output::OutputOptions;
use crate::table::{ColumnSet, ReportCell, TextEmphasis, column_set};
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings};
use speedwell_model::experiment::ExperimentDesign;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{
    Case, Session, SessionPurpose, SessionState, StepFailure, StoppingDesign, quote,
};
use std::collections::HashMap;
use std::time::Duration;

/// Builds the full report of a single session, with the details of its measurement. `experiment` is
/// the design of a session that is an experiment. `mark` adds to the findings what only the store
/// knows. The details show the session's name, if any.
///
/// # Errors
/// Fails if the session lacks a requested parameter or metric, if a requested chart or unit does
/// not suit the results, or if loads cannot be read.
pub fn report_session(
    (name, session, experiment): (Option<&str>, &Session, Option<&ExperimentDesign>),
    study: &StudyChoice,
    settings: &AnalysisSettings,
    output: &OutputOptions,
    mark: impl FnOnce(&mut AnalysisFindings),
) -> anyhow::Result<Document> {
    // A user who chooses metrics, a study or a chart wants the report of the runs instead of the
    // loads.
    let asks_for_runs =
        study.x_axis.is_some() || !settings.metrics.is_empty() || output.chart.is_some();
    let settings = &widen_metrics(settings, session);
    let mut findings = analysis::analyze_session(session, settings);
    mark(&mut findings);
    let loads = speedwell_model::load::measurement::stored_loads(session)?;
    let shows_loads = session.design.experiment.is_none() && !loads.is_empty() && !asks_for_runs;
    let mut document = if shows_loads {
        let loads: Vec<_> = loads.iter().map(analysis::load::analyze_load).collect();
        report_load_session(session, &loads, output, || {
            report_findings(&analysis::analyze_session(session, settings), output)
        })?
    } else {
        report_requested((session, experiment), &findings, study, settings, output)?
    };
    document.append_document(crate::report_measurement_details(&[(name, session)], &findings));
    document.gate_lines.extend(session.design.gate_lines.iter().cloned());
    Ok(document)
}

/// Does the same as [`report_session`] for a session whose runs do not fit into memory. `header` is
/// the session without its runs, `runs` is the number of runs, and `parts` supplies the runs as
/// [`analysis::analyze_in_parts`] requires. Parameter studies are not supported.
///
/// # Errors
/// Fails if the session lacks a requested metric, if a requested chart or unit does not suit the
/// results, or if `parts` fails.
pub fn report_session_in_parts(
    (header, runs): (&Session, usize),
    parts: impl Fn(&mut dyn FnMut(&Session)) -> anyhow::Result<()>,
    settings: &AnalysisSettings,
    output: &OutputOptions,
    mark: impl FnOnce(&mut AnalysisFindings),
) -> anyhow::Result<Document> {
    let settings = &widen_metrics(settings, header);
    let mut findings = analysis::analyze_in_parts(header, settings, parts)?;
    mark(&mut findings);
    let mut document = report_findings(&findings, output)?;
    document.append_document(report_measurement_details_of(&[(None, header, runs)], &findings));
    document.gate_lines.extend(header.design.gate_lines.iter().cloned());
    Ok(document)
}

/// Includes all metrics if the session is a single load test by another tool and no metric was
/// chosen: the times of such a test matter as much as its rate.
fn widen_metrics(settings: &AnalysisSettings, session: &Session) -> AnalysisSettings {
    let is_load = session.metric("latency_p50").is_some();
    let is_alone = session.design.stopping == StoppingDesign::Fixed { runs: 1 };
    if settings.metrics.is_empty() && is_load && is_alone {
        AnalysisSettings { metrics: vec!["all".to_owned()], ..settings.clone() }
    } else {
        settings.clone()
    }
}

// Lists the stored sessions, a page at a time.

/// A page of the stored sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionsPage<'a> {
    /// The sessions shown.
    pub sessions: &'a [SessionOverview],
    /// The page number. Page 1 has the newest sessions.
    pub number: u32,
    /// The number of sessions on all pages together.
    pub all: usize,
    /// Whether the list is filtered. If so, more sessions may be stored than the list shows.
    pub is_chosen: bool,
}

/// Returns the answer of a session in a few words: how its sides compare, or what its only case or
/// load gave. Empty if the session has no single answer.
pub fn session_answer(session: &Session, settings: &AnalysisSettings) -> String {
    if has_own_report(session) {
        return String::new();
    }
    first_words(
        &load_sentence(session)
            .unwrap_or_else(|| first_answer(&analysis::analyze_session(session, settings))),
    )
}

/// Whether the report of a session is more than a comparison or a summary.
pub(crate) fn has_own_report(session: &Session) -> bool {
    let design = &session.design;
    let is_own = design.experiment.is_some() || design.steady.is_some();
    is_own || design.purpose == SessionPurpose::Bisect
}

/// Returns the answer of a session of loads; `None` for other sessions.
pub(crate) fn load_sentence(session: &Session) -> Option<String> {
    let loads = speedwell_model::load::measurement::stored_loads(session).unwrap_or_default();
    let loads: Vec<_> = loads.iter().map(analysis::load::analyze_load).collect();
    (!loads.is_empty()).then(|| loads_headline(&loads))
}

/// Returns the first sentence of an answer up to its last interval, without the full stop.
pub(crate) fn first_words(sentence: &str) -> String {
    let first = sentence.split(". ").next().unwrap_or_default();
    let words = interval_end(first).map_or(first, |end| &first[..end]);
    words.strip_suffix('.').unwrap_or(words).to_owned()
}

/// Returns where the last interval of a sentence ends. Names may have brackets, too.
fn interval_end(sentence: &str) -> Option<usize> {
    let mut starts = sentence.rmatch_indices('[').map(|(start, _)| start);
    starts.find_map(|start| {
        let length = sentence[start..].find(']')?;
        let inside = &sentence[start + 1..start + length];
        let is_interval = inside.contains(", ")
            && inside.chars().all(|one| one.is_ascii_digit() || "+-.,%∞ ".contains(one));
        is_interval.then_some(start + length + 1)
    })
}

/// Lists the sessions.
pub fn list_sessions(page: &SessionsPage<'_>) -> Document {
    list_sessions_with_answers(page, &HashMap::new())
}

/// Lists the sessions with those of their answers that are known, by number. An answer has lines of
/// its own, because it is worth more than any column beside it.
pub fn list_sessions_with_answers(
    page: &SessionsPage<'_>,
    answers: &HashMap<i64, String>,
) -> Document {
    let sessions = page.sessions;
    let mut document = Document::new("sessions");
    if sessions.is_empty() {
        let message = match page.all {
            0 if page.is_chosen => "no stored session matches".to_owned(),
            0 => "no sessions are stored yet".to_owned(),
            all => format!("page {} does not exist: the list has only {all} sessions", page.number),
        };
        document.push_paragraph(message);
    }
    let answer = |session: &SessionOverview| {
        answers.get(&session.number).filter(|answer| !answer.is_empty()).cloned()
    };
    document.push_table(session_columns().build_with_remarks("sessions", sessions, answer));
    if sessions.len() < page.all && !sessions.is_empty() {
        document.push_note(format!(
            "{} of {} sessions; earlier ones: --page {}, all: --limit 0",
            sessions.len(),
            format_whole(page.all),
            page.number + 1
        ));
    }
    document.push_notes(killed_note(sessions.iter().rev()));
    document
}

/// Says how to resume the first killed session, if there is one.
pub(crate) fn killed_note<'s>(
    mut sessions: impl Iterator<Item = &'s SessionOverview>,
) -> Option<String> {
    let killed = sessions.find(|session| session.is_killed)?.number;
    Some(format!(
        "killed: the measuring process is gone, but its results are kept; resume with --resume @{killed}"
    ))
}

fn session_columns() -> ColumnSet<SessionOverview> {
    column_set! { session: SessionOverview;
        figure("number", "session") => ReportCell::session(session.number),
        machine("id") => &session.id,
        words("started_unix_ms", "started (UTC)") => ReportCell::moment(session.started_unix_ms),
        words("state", "state") => state_cell(session),
        words("revision", "revision").expendable(4) => revision_cell(session),
        words("branch", "branch").expendable(5) =>
            session.origin.as_ref().and_then(|origin| origin.branch.as_deref()).unwrap_or_default(),
        words("tags", "tags").expendable(1) =>
            ReportCell::words(session.tags.join(" ")).with_emphasis(TextEmphasis::Strong),
        words("variants", "variants").expendable(2) =>
            ReportCell::words(session.variants.join(" ")).with_text(variant_names(session)),
        figure("cases", "cases") => session.cases,
        figure("runs", "runs") => session.runs,
        figure("failures", "failed") =>
            ReportCell::from(session.failures)
                .shown_if(session.failures > 0)
                .with_emphasis(TextEmphasis::Bad),
        figure("elapsed_ms", "took").expendable(3) =>
            ReportCell::value(session.elapsed_ms).with_text(format_duration(session.elapsed_ms)),
        label("command", "command") =>
            ReportCell::words(session.command.join(" ")).with_text(command_line(&session.command)),
    }
}

/// Builds the cell of a state. Only unusual states are shown, so that they stand out.
pub(crate) fn state_cell(session: &SessionOverview) -> ReportCell {
    let (word, emphasis) = match session.state {
        _ if session.is_killed => ("killed", TextEmphasis::Caution),
        SessionState::Running => ("running", TextEmphasis::Caution),
        SessionState::Complete => ("complete", TextEmphasis::None),
        SessionState::Interrupted => ("interrupted", TextEmphasis::Caution),
        SessionState::Imported => ("imported", TextEmphasis::Muted),
    };
    if session.state != SessionState::Complete {
        return ReportCell::words(word).with_emphasis(emphasis);
    }
    let is_failed = session.runs == 0 && session.failures > 0;
    let shown = if is_failed { "failed" } else { "" };
    ReportCell::words(word).with_text(shown).with_emphasis(TextEmphasis::Bad)
}

/// Builds the cell of the measured revision. A `+` marks a checkout with uncommitted changes.
pub(crate) fn revision_cell(session: &SessionOverview) -> ReportCell {
    let Some(origin) = &session.origin else { return ReportCell::words("") };
    let changed = if origin.dirty.is_some() { "+" } else { "" };
    ReportCell::words(&origin.revision).with_text(format!("{}{changed}", origin.short()))
}

/// Returns the names of the variants. A load test without a comparison has a single variant,
/// "default". The list then shows the addresses of the loads, as other reports do.
pub(crate) fn variant_names(session: &SessionOverview) -> String {
    match &*session.variants {
        [only] if only == "default" && !session.loads.is_empty() => session.loads.join(" "),
        names if names.len() > MAX_NAMED_VARIANTS => {
            let shown = names[..MAX_NAMED_VARIANTS].join(" ");
            format!("{shown} and {} more", names.len() - MAX_NAMED_VARIANTS)
        }
        names => names.join(" "),
    }
}

/// Maximum number of variants listed by name. A bisection has one variant per tested revision.
const MAX_NAMED_VARIANTS: usize = 4;

/// Returns the command line, quoted for a shell, on one line, with only the file name of the
/// program.
pub(crate) fn command_line(command: &[String]) -> String {
    let Some((program, arguments)) = command.split_first() else { return String::new() };
    let file_name = program.rsplit('/').next().unwrap_or_default();
    let words = std::iter::once(file_name).chain(arguments.iter().map(String::as_str));
    let line = words.map(quote).collect::<Vec<_>>().join(" ");
    if line.contains(['\n', '\r', '\t']) {
        // A script among the arguments may span several lines.
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        line
    }
}

// Reports plans before anything is measured: every case (`--list`), or the result of a trial
// (`--test`).
//
// The list of cases shortens no id, so that ids can be copied and piped.

/// A case of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseLine {
    /// The case.
    pub case: Case,
    /// Number of planned runs over all variants. If the session decides during the measurement how
    /// many runs are needed, this is an upper bound.
    pub runs: u64,
}

/// Lists the cases. Below them are the total number of runs, which may be an upper bound, and the
/// measuring time if it is known.
pub fn list_planned_cases(
    cases: &[CaseLine],
    is_upper_bound: bool,
    time: Option<Duration>,
) -> Document {
    let mut document = Document::new("cases");
    let columns = column_set! { line: CaseLine;
        identifier("case", "case") => line.case.id(),
        machine("benchmark") => &line.case.benchmark,
        machine("parameters") => parameters_json(&line.case),
        figure("runs", "runs") => line.runs,
    };
    document.push_table(columns.build_table("cases", cases));
    let runs: u64 = cases.iter().map(|case| case.runs).sum();
    let runs = format_count(runs as usize, "run", "runs");
    let (up_to, precision) = if is_upper_bound { ("up to ", "up to") } else { ("", "about") };
    let duration = time.map(|time| format!(", {precision} {} of measuring", format_about(time)));
    document.push_note(format!(
        "{}, {up_to}{runs}{}",
        format_count(cases.len(), "case", "cases"),
        duration.unwrap_or_default()
    ));
    document
}

/// The counts of a trial.
#[derive(Debug, Clone)]
pub struct TrialOutcome {
    /// Number of benchmark files tried.
    pub files: usize,
    /// Number of files whose cases all worked.
    pub working_files: usize,
    /// Number of cases that worked. In an experiment, a case counts once for each variant under
    /// which it worked.
    pub cases: usize,
    /// Whether an experiment was tried.
    pub is_experiment: bool,
    /// Cases that failed or cannot run here.
    pub failures: Vec<StepFailure>,
}

/// Reports a trial.
pub fn report_trial(trial: &TrialOutcome, output: &OutputOptions) -> Document {
    let failed = trial.failures.iter().filter(|failure| !failure.cause.is_skip()).count();
    let skipped = trial.failures.len() - failed;
    let mut document = Document::new("trial");
    document.push_headline(if trial.is_experiment {
        format!("{} of {} combinations of case and variant work", trial.cases, trial.cases + failed)
    } else {
        format!(
            "{} of {} benchmark files work: {} cases succeeded, {failed} failed, {skipped} skipped",
            trial.working_files, trial.files, trial.cases
        )
    });
    // The columns are for programs only: people read the headline.
    let columns = column_set! { trial: TrialOutcome;
        machine("files") => trial.files,
        machine("working_files") => trial.working_files,
        machine("cases") => trial.cases,
        machine("failed") => failed,
        machine("skipped") => skipped,
    };
    document.push_table(columns.build_table("trial", std::slice::from_ref(trial)));
    document.append_document(report_failures(&trial.failures, output.verbosity));
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::print_document;

    fn session(number: i64, state: SessionState, failures: usize) -> SessionOverview {
        SessionOverview {
            number,
            origin: None,
            id: format!("id-{number}"),
            started_unix_ms: 1_769_868_300_000,
            elapsed_ms: 245_000,
            state,
            is_killed: false,
            tags: Vec::new(),
            variants: vec!["old".into(), "new".into()],
            loads: Vec::new(),
            benchmarks: 3,
            cases: 12,
            runs: 1344,
            failures,
            skipped: 0,
            command: ["/usr/bin/speedwell", "run", "buffers"].map(String::from).to_vec(),
        }
    }

    fn print(lines: &[SessionOverview], output: &OutputOptions) -> String {
        let mut out = Vec::new();
        let page = SessionsPage { sessions: lines, number: 1, all: lines.len(), is_chosen: false };
        print_document(&list_sessions(&page), output, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn complete_sessions_without_failures_have_no_state_column() {
        let text = print(&[session(2, SessionState::Complete, 0)], &OutputOptions::default());
        assert_eq!(
            text,
            "session  started (UTC)     variants  cases   runs        took  command\n\
             ────────────────────────────────────────────────────────────────────────────────────\n\
             \x20    @2  2026-01-31 14:05  old new      12  1,344  4 min 05 s  speedwell run buffers\n"
        );
    }

    #[test]
    fn sessions_are_listed_with_the_answers_that_are_known() {
        let rows = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n\
            \"old\",\"g/a.js\",\"\",10,1\n\"new\",\"g/a.js\",\"\",20,1\n";
        let measured = speedwell_formats::read("f.csv", rows.as_bytes()).unwrap().remove(0);
        let answer = session_answer(&measured, &AnalysisSettings::default());
        assert!(answer.contains("new") && !answer.ends_with('.'), "{answer}");
        let lines = [session(1, SessionState::Complete, 0), session(2, SessionState::Complete, 0)];
        let page = SessionsPage { sessions: &lines, number: 1, all: 2, is_chosen: false };
        let long = "sum([i for i in range({n})] + [1, x]) is 2.00 times as fast as sum(range({n})) \
            [1.90, 2.10]: 1 against 2 ns";
        let end = interval_end(long).unwrap();
        assert!(long[..end].ends_with("sum(range({n})) [1.90, 2.10]"), "{}", &long[..end]);
        assert_eq!(interval_end("sum([i for i in x]) waits"), None);
        let answers = HashMap::from([(2, long[..end].to_owned())]);
        let document = list_sessions_with_answers(&page, &answers);
        let mut out = Vec::new();
        let output = OutputOptions { width: Some(80), ..OutputOptions::default() };
        print_document(&document, &output, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&long[..end]), "{text}");
        let failed = SessionOverview { runs: 0, ..session(3, SessionState::Complete, 8) };
        let listed = print(&[failed], &OutputOptions::default());
        // The state, and the heading of the number of failures.
        assert_eq!(listed.matches("failed").count(), 2, "{listed}");
    }

    #[test]
    fn variants_are_listed_by_load_address_or_by_a_few_names() {
        let url = "http://127.0.0.1/";
        let with = |variants: &[&str]| SessionOverview {
            variants: variants.iter().map(ToString::to_string).collect(),
            loads: vec![url.into()],
            ..session(1, SessionState::Complete, 0)
        };
        assert_eq!(super::variant_names(&with(&["default"])), url);
        assert_eq!(super::variant_names(&with(&["jit"])), "jit");
        assert_eq!(super::variant_names(&with(&["default", "jit"])), "default jit");
        let many = super::variant_names(&with(&["a", "b", "c", "d", "e", "f"]));
        assert_eq!(many, "a b c d and 2 more");
    }

    #[test]
    fn sorting_follows_the_figures_not_their_text() {
        let lines =
            [session(9, SessionState::Complete, 2), session(10, SessionState::Interrupted, 0)];
        let output = OutputOptions { sort: Some("number".into()), ..OutputOptions::default() };
        let text = print(&lines, &output);
        assert!(text.find("@10").unwrap() < text.find(" @9").unwrap(), "{text}");
        assert!(text.contains("interrupted"));
    }

    #[test]
    fn an_empty_store_reports_that_no_sessions_are_stored() {
        assert_eq!(print(&[], &OutputOptions::default()), "no sessions are stored yet\n");
    }

    #[test]
    fn ids_stay_whole_on_a_narrow_screen() {
        let id = "string_decoder/string-decoder.js encoding=utf8 inLen=1024 n=2500000";
        let line = CaseLine { case: Case::parse(id).unwrap(), runs: 1_060 };
        let output = OutputOptions { width: Some(30), ..OutputOptions::default() };
        let mut out = Vec::new();
        let list = list_planned_cases(&[line], true, Some(Duration::from_secs(90)));
        print_document(&list, &output, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(&format!("{id}  1,060\n")), "{text}");
        assert!(
            text.ends_with("\n1 case, up to 1,060 runs, up\nto 1 min 30 s of measuring\n"),
            "{text}"
        );
    }
}

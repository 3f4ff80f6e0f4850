//! Lists the stored sessions, a page at a time.

use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::figure::{format_duration, format_number};
use crate::table::{ReportCell, TextEmphasis};
use speedwell_model::SessionState;
use speedwell_model::stored::SessionOverview;

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

/// Lists the sessions.
pub fn list_sessions(page: &SessionsPage<'_>) -> Document {
    let sessions = page.sessions;
    let mut document = Document::new("sessions");
    if sessions.is_empty() {
        let message = match page.all {
            0 if page.is_chosen => "no stored session matches".to_owned(),
            0 => "no sessions are stored yet".to_owned(),
            all => format!("page {} does not exist: the list has only {all} sessions", page.number),
        };
        document.push(ReportBlock::Paragraph(message));
    }
    let table = session_columns().build_table("sessions", sessions);
    document.push(ReportBlock::Table(table));
    if sessions.len() < page.all && !sessions.is_empty() {
        document.push(ReportBlock::Note(format!(
            "{} of {} sessions; earlier ones: --page {}, all: --limit 0",
            sessions.len(),
            format_number(page.all as f64, 0),
            page.number + 1
        )));
    }
    if let Some(killed) = sessions.iter().rev().find(|session| session.is_killed) {
        document.push(ReportBlock::Note(format!(
            "killed: the measuring process is gone, but its results are kept; resume with --resume @{}",
            killed.number
        )));
    }
    document
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
        figure("cases", "cases") => ReportCell::large_count(session.cases),
        figure("runs", "runs") => ReportCell::large_count(session.runs),
        figure("failures", "failed") =>
            ReportCell::large_count(session.failures)
                .shown_if(session.failures > 0)
                .with_emphasis(TextEmphasis::Bad),
        figure("elapsed_ms", "took").expendable(3) =>
            ReportCell::value(session.elapsed_ms).with_text(format_duration(session.elapsed_ms)),
        label("command", "command") =>
            ReportCell::words(session.command.join(" ")).with_text(command_line(&session.command)),
    }
}

/// Builds the cell of a state. Only unusual states are shown, so that they stand out.
fn state_cell(session: &SessionOverview) -> ReportCell {
    let (word, emphasis) = if session.is_killed {
        ("killed", TextEmphasis::Caution)
    } else {
        state_word(session.state)
    };
    let is_complete = session.state == SessionState::Complete;
    ReportCell::words(word).shown_if(!is_complete).with_emphasis(emphasis)
}

/// Builds the cell of the measured revision. A `+` marks a checkout with uncommitted changes.
fn revision_cell(session: &SessionOverview) -> ReportCell {
    let Some(origin) = &session.origin else {
        return ReportCell::words("");
    };
    let changed = if origin.dirty.is_some() { "+" } else { "" };
    ReportCell::words(&origin.revision).with_text(format!("{}{changed}", origin.short()))
}

/// Returns the names of the variants. A load test without a comparison has a single variant,
/// "default". The list then shows the addresses of the loads, as other reports do.
fn variant_names(session: &SessionOverview) -> String {
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

/// Returns the command line on one line, with only the file name of the program.
fn command_line(command: &[String]) -> String {
    let Some((program, arguments)) = command.split_first() else {
        return String::new();
    };
    let file_name = program.rsplit('/').next().unwrap_or_default();
    let line = [&[file_name.to_owned()], arguments].concat().join(" ");
    // A script among the arguments may span several lines.
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn state_word(state: SessionState) -> (&'static str, TextEmphasis) {
    match state {
        SessionState::Running => ("running", TextEmphasis::Caution),
        SessionState::Complete => ("complete", TextEmphasis::None),
        SessionState::Interrupted => ("interrupted", TextEmphasis::Caution),
        SessionState::Imported => ("imported", TextEmphasis::Muted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::OutputOptions;
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
}

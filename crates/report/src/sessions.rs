//! The list of stored sessions, a page at a time.

use crate::document::{Block, Document};
use crate::figure::{duration, moment, spell};
use crate::table::{Cell, Column, Columns, Emphasis, Kind};
use speedwell_model::State;
use speedwell_results::store::Overview;

/// A page of the stored sessions.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The sessions shown.
    pub sessions: &'a [Overview],
    /// The page number; page 1 has the newest sessions.
    pub number: u32,
    /// The total number of sessions.
    pub all: usize,
    /// Whether the list is filtered, so that there may be other sessions.
    pub is_chosen: bool,
}

/// Lists the sessions.
pub fn sessions(page: &Page<'_>) -> Document {
    let sessions = page.sessions;
    let mut document = Document::new("sessions");
    if sessions.is_empty() {
        let words = match page.all {
            0 if page.is_chosen => "no stored session is like that".to_owned(),
            0 => "no sessions are stored yet".to_owned(),
            all => format!(
                "there is no page {}: {all} sessions are stored",
                page.number
            ),
        };
        document.push(Block::Paragraph(words));
    }
    let table = columns().table("sessions", sessions);
    document.push(Block::Table(table));
    if sessions.len() < page.all && !sessions.is_empty() {
        document.push(Block::Note(format!(
            "{} of {} sessions; earlier ones: --page {}, all: --limit 0",
            sessions.len(),
            spell(page.all as f64, 0),
            page.number + 1
        )));
    }
    if let Some(killed) = sessions.iter().rev().find(|session| session.is_killed) {
        document.push(Block::Note(format!(
            "killed: the process that measured it is gone; what it measured is kept, resume with --resume @{}",
            killed.number
        )));
    }
    document
}

fn columns() -> Columns<Overview> {
    let mut columns = Columns::new();
    columns.add(Column::figure("number", "session"), |session: &Overview| {
        Cell::value(session.number).shown(format!("@{}", session.number))
    });
    columns.add_value("id", |session| session.id.clone());
    columns.add(
        Column::words("started_unix_ms", "started (UTC)"),
        |session| Cell::value(session.started_unix_ms).shown(moment(session.started_unix_ms)),
    );
    columns.add(Column::words("state", "state"), |session| {
        let (word, emphasis) = if session.is_killed {
            ("killed", Emphasis::Caution)
        } else {
            state(session.state)
        };
        // The usual state needs no word.
        let is_usual = session.state == State::Complete;
        Cell::value(word)
            .shown(if is_usual { "" } else { word })
            .emphasised(emphasis)
    });
    add_origin(&mut columns);
    columns.add(Column::words("tags", "tags").expendable(1), |session| {
        Cell::words(session.tags.join(" ")).emphasised(Emphasis::Strong)
    });
    columns.add(
        Column::words("variants", "variants").expendable(2),
        |session| Cell::words(session.variants.join(" ")).shown(variants(session)),
    );
    let counted = |number: usize| Cell::value(number).shown(spell(number as f64, 0));
    columns.add(Column::figure("cases", "cases"), move |session| {
        counted(session.cases)
    });
    columns.add(Column::figure("runs", "runs"), move |session| {
        counted(session.runs)
    });
    columns.add(Column::figure("failures", "failed"), move |session| {
        let shown = if session.failures == 0 {
            String::new()
        } else {
            spell(session.failures as f64, 0)
        };
        Cell::value(session.failures)
            .shown(shown)
            .emphasised(Emphasis::Bad)
    });
    columns.add(
        Column::figure("elapsed_ms", "took").expendable(3),
        |session| Cell::value(session.elapsed_ms).shown(duration(session.elapsed_ms)),
    );
    columns.add(Column::new("command", "command", Kind::Label), |session| {
        Cell::words(session.command.join(" ")).shown(spoken(&session.command))
    });
    columns
}

/// Adds the columns of the measured code; `+` marks a checkout with uncommitted changes.
fn add_origin(columns: &mut Columns<Overview>) {
    columns.add(
        Column::words("revision", "revision").expendable(4),
        |session| match &session.origin {
            Some(origin) => {
                let changed = if origin.dirty.is_some() { "+" } else { "" };
                Cell::words(&origin.revision).shown(format!("{}{changed}", origin.short()))
            }
            None => Cell::words(""),
        },
    );
    columns.add(Column::words("branch", "branch").expendable(5), |session| {
        let origin = session.origin.as_ref();
        Cell::words(
            origin
                .and_then(|origin| origin.branch.as_deref())
                .unwrap_or_default(),
        )
    });
}

/// The names of the variants. Loads that are not compared have a single, unnamed variant; they are
/// listed by address, as in other reports.
fn variants(session: &Overview) -> String {
    match &*session.variants {
        [only] if only == "default" && !session.loads.is_empty() => session.loads.join(" "),
        names if names.len() > MOST_VARIANTS => {
            let shown = names[..MOST_VARIANTS].join(" ");
            format!("{shown} and {} more", names.len() - MOST_VARIANTS)
        }
        names => names.join(" "),
    }
}

/// Most variants that are named; a bisection has one per tested revision.
const MOST_VARIANTS: usize = 4;

/// The command line, without the path of the program.
fn spoken(command: &[String]) -> String {
    let Some((program, words)) = command.split_first() else {
        return String::new();
    };
    let program = program.rsplit('/').next().unwrap_or_default();
    let line = [&[program.to_owned()], words].concat().join(" ");
    // Code may span several lines.
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn state(state: State) -> (&'static str, Emphasis) {
    match state {
        State::Running => ("running", Emphasis::Caution),
        State::Complete => ("complete", Emphasis::None),
        State::Interrupted => ("interrupted", Emphasis::Caution),
        State::Imported => ("imported", Emphasis::Muted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use crate::output::print;

    fn session(number: i64, state: State, failures: usize) -> Overview {
        Overview {
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
            command: ["/usr/bin/speedwell", "run", "buffers"]
                .map(String::from)
                .to_vec(),
        }
    }

    fn printed(lines: &[Overview], output: &Output) -> String {
        let mut out = Vec::new();
        let page = Page {
            sessions: lines,
            number: 1,
            all: lines.len(),
            is_chosen: false,
        };
        print(&sessions(&page), output, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn usual_states_and_no_failures_take_no_room() {
        let text = printed(&[session(2, State::Complete, 0)], &Output::default());
        assert_eq!(
            text,
            "session  started (UTC)     variants  cases   runs        took  command\n\
             ────────────────────────────────────────────────────────────────────────────────────\n\
             \x20    @2  2026-01-31 14:05  old new      12  1,344  4 min 05 s  speedwell run buffers\n"
        );
    }

    #[test]
    fn a_load_goes_by_its_address_and_variants_by_their_names_as_long_as_they_are_few() {
        let url = "http://127.0.0.1/";
        let with = |variants: &[&str]| Overview {
            variants: variants.iter().map(ToString::to_string).collect(),
            loads: vec![url.into()],
            ..session(1, State::Complete, 0)
        };
        assert_eq!(super::variants(&with(&["default"])), url);
        assert_eq!(super::variants(&with(&["jit"])), "jit");
        assert_eq!(super::variants(&with(&["default", "jit"])), "default jit");
        let many = super::variants(&with(&["a", "b", "c", "d", "e", "f"]));
        assert_eq!(many, "a b c d and 2 more");
    }

    #[test]
    fn sorting_follows_the_figures_not_their_text() {
        let lines = [
            session(9, State::Complete, 2),
            session(10, State::Interrupted, 0),
        ];
        let output = Output {
            sort: Some("number".into()),
            ..Output::default()
        };
        let text = printed(&lines, &output);
        assert!(
            text.find("@10").unwrap() < text.find(" @9").unwrap(),
            "{text}"
        );
        assert!(text.contains("interrupted"));
    }

    #[test]
    fn an_empty_store_says_so() {
        assert_eq!(
            printed(&[], &Output::default()),
            "no sessions are stored yet\n"
        );
    }
}

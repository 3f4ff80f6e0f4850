//! What a pull request is told: a comparison, or why there is none. The command says it in a job, and the server by itself.
//!
//! Decides on text, status and line; where it is said is decided by whoever asks. Start at [`of_comparison`].

use super::Status;
use super::gate::{Gate, every_metric};
use super::options::{FailOn, OutputArgs};
use anyhow::bail;
use speedwell_analysis::gate::GateAnswer;
use speedwell_analysis::{Findings, Settings};
use speedwell_forge::{Stamp, State};
use speedwell_process::unix_ms;
use speedwell_report::sources::{self, Labelled};
use speedwell_report::{Block, Document, Format, Output};
use speedwell_results::store::credible_start;

/// What is said.
#[derive(Debug)]
pub struct Answer {
    /// Markdown.
    pub body: String,
    /// When what was measured.
    pub stamp: Stamp,
    /// Of the commit.
    pub state: State,
    /// In a line.
    pub description: String,
    /// The exit status of a command that says it.
    pub status: Status,
    /// Why there is no comparison.
    pub failure: Option<anyhow::Error>,
}

/// Says what a comparison shows; `mark` adds to the findings what the store knows of the machine.
///
/// # Errors
/// Nothing can be compared.
pub fn of_comparison(
    labelled: &[Labelled<'_>],
    settings: &Settings,
    fail_on: FailOn,
    mark: impl FnOnce(&mut Findings),
) -> anyhow::Result<Answer> {
    let mut findings = sources::compare(labelled, settings)?;
    mark(&mut findings);
    sources::check(&findings, labelled)?;
    let output = Output::default();
    let study = Default::default();
    let mut document = sources::document(labelled, &findings, &study, settings, &output)?;
    let gate = Gate::new(&findings, fail_on, || {
        sources::compare(labelled, &every_metric(settings)?).ok()
    });
    let (state, line) = state(&findings, &gate);
    let description = line.unwrap_or_else(|| headline(&document));
    gate.add_to(&mut document, &OutputArgs::default());
    let Some((_, newest, _)) = labelled.last() else {
        bail!("there is nothing to compare");
    };
    let worktrees = newest.variants.iter().rev();
    let worktree = worktrees
        .filter_map(|variant| variant.worktree.as_ref())
        .next();
    let of_variant = worktree.map(|worktree| worktree.revision.clone());
    let of_session = || newest.origin.as_ref().map(|origin| origin.revision.clone());
    Ok(Answer {
        body: markdown(&document),
        stamp: Stamp {
            revision: of_variant.or_else(of_session).unwrap_or_else(unknown),
            at_unix_ms: measured_at(newest.started_unix_ms),
        },
        state,
        description,
        // What is said of failures is said; without a gate they are no answer.
        status: gate.outcome().map_or(Status::DONE, |_| gate.status()),
        failure: None,
    })
}

/// The time of a stamp, by which a newer answer replaces an older one.
pub fn measured_at(started_unix_ms: i64) -> u64 {
    u64::try_from(credible_start(started_unix_ms, unix_ms())).unwrap_or_default()
}

/// Says that nothing was compared, and why: never that nothing has changed.
pub fn not_compared(failure: anyhow::Error) -> Answer {
    let reason = failure.to_string();
    let reason = reason.split("\nhint: ").next().unwrap_or_default();
    let words = format!("not compared: {reason}");
    let mut document = Document::new("comment");
    document.push(Block::Headline(words.clone()));
    Answer {
        body: markdown(&document),
        stamp: Stamp {
            revision: unknown(),
            at_unix_ms: u64::try_from(unix_ms()).unwrap_or_default(),
        },
        state: State::Error,
        description: words,
        status: Status::COULD_NOT,
        failure: Some(failure),
    }
}

/// What stands for a revision that nobody knows.
pub fn unknown() -> String {
    "unknown".to_owned()
}

/// A line that leads to a page, in small letters.
pub fn leads_to(words: &str, page: &str) -> String {
    let page = page.replace(['<', '>', '\n'], "");
    format!("\n<sub>[{words}](<{page}>)</sub>\n")
}

/// The status of the commit, with the line of the gate where something was refused or could not be judged. Without a gate,
/// what failed or is not whole was not compared.
fn state(findings: &Findings, gate: &Gate) -> (State, Option<String>) {
    let Some(outcome) = gate.outcome() else {
        let is_whole = findings.failures.is_empty() && findings.gate_obstacles.is_empty();
        let reason = findings.gate_obstacles.first().cloned();
        return if is_whole {
            (State::Success, None)
        } else {
            (
                State::Error,
                reason.map(|why| format!("not compared: {why}")),
            )
        };
    };
    match outcome.answer() {
        GateAnswer::Passed => (State::Success, None),
        GateAnswer::Failed => (State::Failure, Some(outcome.line())),
        GateAnswer::CannotJudge => (State::Error, Some(outcome.line())),
    }
}

fn headline(document: &Document) -> String {
    let mut headlines = document.walk().into_iter().filter_map(|block| match block {
        Block::Headline(text) => Some(text.clone()),
        _ => None,
    });
    headlines.next().unwrap_or_default()
}

fn markdown(document: &Document) -> String {
    let mut text = Vec::new();
    let renderer = Format::Markdown.renderer(Vec::new());
    // A vector takes everything.
    let _ = renderer.render(document, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

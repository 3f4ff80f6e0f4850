//! Builds the pull-request comment: a comparison, or the reason why there is none. Used by
//! `speedwell comment` in CI and by the server.
//!
//! Decides on the text, commit status and summary line; the caller posts them. Start at
//! [`of_comparison`].

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

/// The content of a comment and commit status.
#[derive(Debug)]
pub struct Answer {
    /// The comment, in Markdown.
    pub body: String,
    /// The measured revision and the time.
    pub stamp: Stamp,
    /// State of the commit status.
    pub state: State,
    /// Summary line.
    pub description: String,
    /// Exit status of a command that posts it.
    pub status: Status,
    /// Why there is no comparison.
    pub failure: Option<anyhow::Error>,
}

/// Builds the answer for a comparison; `mark` adds to the findings what the store knows about the
/// machine.
///
/// # Errors
/// Fails if nothing can be compared.
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
        // The comment lists failures already; without a gate they do not affect the exit status.
        status: gate.outcome().map_or(Status::DONE, |_| gate.status()),
        failure: None,
    })
}

/// The time of a stamp, by which a newer answer replaces an older one.
pub fn measured_at(started_unix_ms: i64) -> u64 {
    u64::try_from(credible_start(started_unix_ms, unix_ms())).unwrap_or_default()
}

/// Builds an answer that nothing was compared, and why. It never claims that nothing changed.
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

/// Placeholder for an unknown revision.
pub fn unknown() -> String {
    "unknown".to_owned()
}

/// Formats a link to a page, in small print.
pub fn leads_to(words: &str, page: &str) -> String {
    let page = page.replace(['<', '>', '\n'], "");
    format!("\n<sub>[{words}](<{page}>)</sub>\n")
}

/// Returns the commit status, with the gate's line if it failed or could not judge. Without a gate,
/// failures and incomplete results count as not compared.
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
    // Writing to a vector cannot fail.
    let _ = renderer.render(document, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

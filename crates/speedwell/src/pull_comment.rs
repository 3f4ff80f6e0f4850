//! Builds the pull-request comment: a comparison, or the reason why there is none. The server and
//! `speedwell comment` use this module.
//!
//! The module builds the text, the commit status and the summary line. The caller posts them. Start
//! at [`answer_from_comparison`].

use super::CommandStatus;
use super::gate::{CommandGate, every_metric};
use super::options::{FailOn, OutputArgs};
use anyhow::bail;
use speedwell_analysis::gate::GateAnswer;
use speedwell_analysis::{AnalysisFindings, AnalysisSettings};
use speedwell_machine::process::unix_time_ms;
use speedwell_model::ErrorText;
use speedwell_report::sources::{self, LabelledSession};
use speedwell_report::{Document, OutputOptions, ReportBlock, ReportFormat};
use speedwell_server::clients::forge::{CommitState, ResultStamp};
use speedwell_store::credible_start;

/// The content of a comment and commit status.
#[derive(Debug)]
pub struct PullAnswer {
    /// The comment, in Markdown.
    pub body: String,
    /// The measured revision and the time of the measurement.
    pub stamp: ResultStamp,
    /// State of the commit status.
    pub state: CommitState,
    /// Summary line.
    pub description: String,
    /// Exit status of a command that posts this answer.
    pub status: CommandStatus,
    /// Why there is no comparison.
    pub failure: Option<anyhow::Error>,
}

/// Builds the answer for a comparison. `mark` adds facts from the store to the findings.
///
/// # Errors
/// Fails if nothing can be compared.
pub fn answer_from_comparison(
    labelled: &[LabelledSession<'_>],
    settings: &AnalysisSettings,
    fail_on: FailOn,
    mark: impl FnOnce(&mut AnalysisFindings),
) -> anyhow::Result<PullAnswer> {
    let mut findings = sources::compare_sources(labelled, settings)?;
    mark(&mut findings);
    sources::check_rows(&findings, labelled)?;
    let output = OutputOptions::default();
    let study = Default::default();
    let mut document = sources::report_sources(labelled, &findings, &study, settings, &output)?;
    let gate = CommandGate::new(&findings, fail_on, || {
        sources::compare_sources(labelled, &every_metric(settings)?).ok()
    });
    let (state, line) = commit_state(&findings, &gate);
    let description = line.unwrap_or_else(|| first_headline(&document));
    gate.add_to(&mut document, &OutputArgs::default());
    let Some((_, newest, _)) = labelled.last() else {
        bail!("nothing to compare");
    };
    let worktrees = newest.variants.iter().rev();
    let worktree = worktrees.filter_map(|variant| variant.worktree.as_ref()).next();
    let variant_revision = worktree.map(|worktree| worktree.revision.clone());
    let session_revision = || newest.origin.as_ref().map(|origin| origin.revision.clone());
    Ok(PullAnswer {
        body: render_markdown(&document),
        stamp: ResultStamp {
            revision: variant_revision.or_else(session_revision).unwrap_or_else(unknown_revision),
            at_unix_ms: measured_at(newest.started_unix_ms),
        },
        state,
        description,
        // Without a gate, failures do not affect the exit status, because the comment lists them.
        status: gate.outcome().map_or(CommandStatus::DONE, |_| gate.exit_status()),
        failure: None,
    })
}

/// Returns the time of a measurement for a [`ResultStamp`]. This time decides which of two answers
/// is newer if neither of their revisions is an ancestor of the other.
pub fn measured_at(started_unix_ms: i64) -> u64 {
    u64::try_from(credible_start(started_unix_ms, unix_time_ms())).unwrap_or_default()
}

/// Builds an answer that says why nothing was compared. It never claims that nothing changed.
pub fn not_compared(failure: anyhow::Error) -> PullAnswer {
    let message = format!("not compared: {}", ErrorText::from_error(&failure).message);
    let mut document = Document::new("comment");
    document.push(ReportBlock::Headline(message.clone()));
    PullAnswer {
        body: render_markdown(&document),
        stamp: ResultStamp {
            revision: unknown_revision(),
            at_unix_ms: u64::try_from(unix_time_ms()).unwrap_or_default(),
        },
        state: CommitState::Error,
        description: message,
        status: CommandStatus::FAILED,
        failure: Some(failure),
    }
}

/// Placeholder for an unknown revision.
pub fn unknown_revision() -> String {
    "unknown".to_owned()
}

/// Formats a link to a page, in small print.
pub fn small_link(label: &str, page: &str) -> String {
    let url = page.replace(['<', '>', '\n'], "");
    format!("\n<sub>[{label}](<{url}>)</sub>\n")
}

/// Returns the commit status. If the gate failed or could not be evaluated, also returns the gate's
/// line. Without a gate, the status is an error if there are failures, or reasons why a gate could
/// not be evaluated. The first of these reasons then replaces the gate's line.
fn commit_state(findings: &AnalysisFindings, gate: &CommandGate) -> (CommitState, Option<String>) {
    let Some(outcome) = gate.outcome() else {
        let is_complete = findings.failures.is_empty() && findings.gate_obstacles.is_empty();
        let reason = findings.gate_obstacles.first().cloned();
        return if is_complete {
            (CommitState::Success, None)
        } else {
            (CommitState::Error, reason.map(|obstacle| format!("not compared: {obstacle}")))
        };
    };
    match outcome.to_answer() {
        GateAnswer::Passed => (CommitState::Success, None),
        GateAnswer::Failed => (CommitState::Failure, Some(outcome.to_line())),
        GateAnswer::CannotJudge => (CommitState::Error, Some(outcome.to_line())),
    }
}

fn first_headline(document: &Document) -> String {
    let mut headlines = document.all_blocks().into_iter().filter_map(|block| match block {
        ReportBlock::Headline(text) => Some(text.clone()),
        _ => None,
    });
    headlines.next().unwrap_or_default()
}

fn render_markdown(document: &Document) -> String {
    let mut text = Vec::new();
    let renderer = ReportFormat::Markdown.file_renderer(Vec::new());
    // Writing to a vector cannot fail.
    let _ = renderer.render(document, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

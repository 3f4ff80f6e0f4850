//! `speedwell comment`: posts the result as a pull-request comment and as a commit status.
//!
//! The module builds the comment, which is a comparison or the reason why there is none, with its
//! commit status and summary line ([`answer_from_comparison`]). The server uses it, too. The module
//! decides what to post, and where; `speedwell_server::clients::forge` finds the
//! existing comment. If the server rejects a post, the command only prints a warning, because the
//! results are stored. Start at [`run`].

use crate::gate::{CommandGate, every_metric};
use crate::options::{
    ComparisonArgs, FailOn, OutputArgs, SelectionArgs, StoreArgs, hide_unused, read_token_file,
};
use crate::source::ResultSource;
use crate::{CommandStatus, operand, source, status};
use anyhow::{Context, Result, ensure};
use clap::Args;
use speedwell_adapters::TrialMode;
use speedwell_analysis::gate::GateAnswer;
use speedwell_analysis::{AnalysisFindings, AnalysisSettings};
use speedwell_config::experiment::Experiment;
use speedwell_machine::environment::{self, GitRepository, env_variable};
use speedwell_machine::process::unix_time_ms;
use speedwell_model::{ErrorText, OriginRequest, OriginSource, short_revision};
use speedwell_report::sources::LabelledSession;
use speedwell_report::{Document, OutputOptions, ReportBlock, ReportFormat, sources};
use speedwell_server::clients::SecretToken;
use speedwell_server::clients::forge::{
    CommentOutcome, CommentText, CommitState, CommitStatus, ForgeClient, PullRequestRef,
    PullUpdate, ResultStamp, StatusOutcome,
};
use speedwell_store::{PostedComment, Store, credible_start};
use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of a git command.
const GIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Post a comparison as a comment on a pull request, and keep it up to date
///
/// The comment has a hidden marker and is edited in place. An older result never replaces a newer one, either in the
/// comment or in the status. In CI jobs of GitHub, GitLab, Gitea and Forgejo, the comment goes to the pull request
/// of the job by default. The token is read from GITHUB_TOKEN or GH_TOKEN (GitHub), GITLAB_TOKEN (GitLab), or
/// GITEA_TOKEN or FORGEJO_TOKEN (Gitea, Forgejo).
///
/// With --fail-on, the comparison sets the exit status, as for 'compare'. If the server rejects the comment, as it
/// does for pull requests from forks, a warning is printed.
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "tag no_save")), after_help = "Examples:
  speedwell comment
  speedwell comment @base @latest --status --fail-on worse --threshold 2%
  speedwell comment --text report.md
  speedwell comment --on github:owner/name#12 --dry-run")]
pub struct CommentArgs {
    /// Results to compare, as for 'compare' [default: @latest]
    ///
    /// A session of a single variant is compared with @base by default.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Post this Markdown file instead; '-' is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sources", "status"])]
    text: Option<PathBuf>,
    /// Pull request, e.g. github:OWNER/NAME#12 [default: the job's]
    ///
    /// Other forms are gitlab:GROUP/NAME!12 and gitea:https://HOST/OWNER/NAME#12. For a self-hosted server, give its
    /// URL as for Gitea.
    #[arg(long, value_name = "REQUEST")]
    on: Option<PullRequestRef>,
    /// Name of the comment, if a pull request has several
    #[arg(long, value_name = "NAME", default_value = "compare")]
    check: String,
    /// Also set the commit status: failure if the --fail-on gate fails
    #[arg(long)]
    status: bool,
    /// Commit that gets the status [default: the job's or result's]
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
    /// Page with more details [default: the page of the job]
    #[arg(long, value_name = "URL")]
    link: Option<String>,
    /// Read the token from this file, not from the environment
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print what would change, and why, without changing it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Posts the comment, and the commit status if requested.
///
/// # Errors
/// Fails if there is no pull request, no token, or nothing to compare. In the last case, a comment
/// that gives the reason is posted nevertheless.
pub fn run(args: CommentArgs) -> Result<CommandStatus> {
    let origin = environment::find_origin(Path::new("."), &OriginRequest::default());
    let link =
        args.link.clone().or_else(|| origin.as_ref().and_then(|origin| origin.job_url.clone()));
    let pull_request = args.on.clone().or_else(|| PullRequestRef::from_job(&env_variable));
    let mut answer = match &args.text {
        Some(path) => answer_from_file(path)?,
        None => build_answer(&args),
    };
    let job_origin = origin.filter(|origin| origin.source == OriginSource::Ci);
    if let Some(revision) = args.commit.clone().or(job_origin.map(|origin| origin.revision)) {
        answer.stamp.revision = revision;
    }
    if let Some(link) = &link {
        ensure!(
            link.starts_with("https://") || link.starts_with("http://"),
            "invalid link '{link}': expected an http or https URL\nhint: --link https://..."
        );
        answer.body.push_str(&small_link("the job", link));
    }
    if args.dry_run {
        status::write_stdout(&answer.body)?;
    } else {
        let pull_request = pull_request.context(
            "no pull request given, and this is not the CI job of a pull request\nhint: name it with --on github:OWNER/NAME#12, or use --dry-run",
        )?;
        let client = ForgeClient::new(pull_request.clone(), read_token(&args, &pull_request)?);
        post_update(&client, &pull_request, &args, &answer, link);
    }
    answer.failure.map_or(Ok(answer.status), Err)
}

fn read_token(args: &CommentArgs, pull_request: &PullRequestRef) -> Result<SecretToken> {
    if let Some(path) = &args.token_file {
        return read_token_file(path);
    }
    let names = pull_request.forge.token_variables();
    let token = names.iter().find_map(|name| env_variable(name)).with_context(|| {
        format!(
            "no token for {pull_request}\nhint: set {}, or name a file with --token-file",
            names.join(" or ")
        )
    })?;
    Ok(SecretToken::new(token))
}

/// Builds the comment from the user's Markdown file.
fn answer_from_file(path: &Path) -> Result<PullAnswer> {
    let read = match path.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => fs::read_to_string(path),
    };
    let body = read.with_context(|| format!("cannot read '{}'", path.display()))?;
    ensure!(!body.trim().is_empty(), "'{}' is empty", path.display());
    Ok(PullAnswer {
        body,
        stamp: result_stamp(None, unix_time_ms()),
        state: CommitState::Success,
        description: String::new(),
        status: CommandStatus::DONE,
        failure: None,
    })
}

/// Builds the comment with the comparison. If nothing can be compared, the comment gives the reason
/// and, if known, the time of the newest result.
fn build_answer(args: &CommentArgs) -> PullAnswer {
    let mut started = None;
    compare_sources(args, &mut started).unwrap_or_else(|failure| {
        let mut answer = not_compared(failure);
        let at_unix_ms = started.map(measured_at);
        answer.stamp.at_unix_ms = at_unix_ms.unwrap_or(answer.stamp.at_unix_ms);
        answer
    })
}

fn compare_sources(args: &CommentArgs, started: &mut Option<i64>) -> Result<PullAnswer> {
    let sources = read_results(args, started)?;
    source::reject_identical(&sources)?;
    let labelled: Vec<LabelledSession<'_>> = sources.iter().map(ResultSource::labelled).collect();
    let settings = args.comparison.analysis_settings(&args.selection.metric.names, None);
    let sessions: Vec<_> = labelled.iter().map(|(_, session, _)| *session).collect();
    answer_from_comparison(&labelled, &settings, args.comparison.fail_on, |findings| {
        args.store.mark_findings(findings, &sessions);
    })
}

/// Reads the given sources. By default, reads the newest session and, if that session has a single
/// variant, @base. Sets `started` to the start time of the last source, even if another source
/// cannot be read.
fn read_results(args: &CommentArgs, started: &mut Option<i64>) -> Result<Vec<ResultSource>> {
    let selection = args.selection.build_selection(&[], TrialMode::No)?;
    let mut read_operands = |texts: &[String]| {
        let sources = source::read_sources(&operand::parse_all(texts)?, &selection, &args.store);
        let newest = sources.as_ref().ok().and_then(|sources| sources.last());
        *started = newest.map_or(*started, |newest| Some(newest.session.started_unix_ms));
        sources
    };
    if let Some((newest, _)) = args.sources.split_last() {
        let sources = read_operands(&args.sources);
        if sources.is_err() && newest != "-" {
            // Read the last source alone, to set `started`.
            let _ = read_operands(std::slice::from_ref(newest));
        }
        return sources;
    }
    let newest = read_operands(&["@latest".to_owned()])?;
    if newest.iter().any(|source| source.session.variants.len() > 1) {
        return Ok(newest);
    }
    read_operands(&["@base".to_owned(), "@latest".to_owned()])
}

/// Posts the update and reports on stderr what happened.
fn post_update(
    client: &ForgeClient,
    pull_request: &PullRequestRef,
    args: &CommentArgs,
    answer: &PullAnswer,
    link: Option<String>,
) {
    let project = pull_request.repository.rsplit('/').next().unwrap_or_default();
    let context = format!("speedwell/{}", args.check);
    let update = PullUpdate {
        comment: Some(answer.comment_text(format!("speedwell:{project}:{}", args.check))),
        status: args.status.then(|| CommitStatus {
            revision: answer.stamp.revision.clone(),
            context: context.clone(),
            state: answer.state,
            description: answer.description.clone(),
            at_unix_ms: Some(answer.stamp.at_unix_ms),
            link,
        }),
    };
    let outcome = client.post_update(&update, &order_revisions);
    if let Some(Ok(posted)) = &outcome.comment {
        if matches!(posted, CommentOutcome::Created(_) | CommentOutcome::Edited(_)) {
            store_comment(pull_request, args, answer);
        }
        status::print_note(&match posted {
            CommentOutcome::Created(id) => format!("wrote comment {id} on {pull_request}"),
            CommentOutcome::Edited(id) => format!("updated comment {id} on {pull_request}"),
            CommentOutcome::Unchanged(id) => {
                format!("comment {id} on {pull_request} is already up to date")
            }
            CommentOutcome::Outdated { id, .. } => {
                format!("kept comment {id} on {pull_request}: it shows a newer result")
            }
        });
    }
    let revision = short_revision(&answer.stamp.revision);
    if let Some(Ok(set)) = &outcome.status {
        status::print_note(&match set {
            StatusOutcome::Set => format!("set the status '{context}' of {revision}"),
            StatusOutcome::Outdated => {
                format!("kept the status '{context}' of {revision}: it shows a newer result")
            }
        });
    }
    for failure in outcome.into_failures() {
        status::print_warning(&format!("{failure}."));
    }
}

/// Records the posted comment in the store. A failure only prints a warning, because the comment is
/// posted.
fn store_comment(pull_request: &PullRequestRef, args: &CommentArgs, answer: &PullAnswer) {
    let comment = answer.posted_comment(pull_request);
    let database = args.store.database.database_path().ok().filter(|path| Store::exists(path));
    let stored =
        database.map(|path| Store::open(&path).and_then(|mut store| store.store_comment(&comment)));
    if let Some(Err(error)) = stored {
        status::print_warning(&format!("The comment cannot be stored: {error:#}."));
    }
}

/// Orders two revisions by age if one is an ancestor of the other.
fn order_revisions(first: &str, second: &str) -> Option<Ordering> {
    let git = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT);
    let (first, second) = (git.commit_id(first)?, git.commit_id(second)?);
    if first == second {
        return Some(Ordering::Equal);
    }
    match git.merge_base(&first, &second)? {
        base if base == first => Some(Ordering::Less),
        base if base == second => Some(Ordering::Greater),
        _ => None,
    }
}

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

impl PullAnswer {
    /// Returns the comment, identified by this marker.
    pub fn comment_text(&self, marker: String) -> CommentText {
        CommentText { marker, stamp: self.stamp.clone(), body: self.body.clone() }
    }

    /// Returns the record of the comment that was posted on a pull request.
    pub fn posted_comment(&self, pull_request: &PullRequestRef) -> PostedComment {
        PostedComment {
            forge: pull_request.forge.to_string(),
            repository: pull_request.repository.clone(),
            pull: pull_request.number.to_string(),
            revision: self.stamp.revision.clone(),
            posted_unix_ms: unix_time_ms(),
            text: self.body.clone(),
        }
    }
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
) -> Result<PullAnswer> {
    let mut findings = sources::compare_sources(labelled, settings)?;
    mark(&mut findings);
    sources::check_rows(&findings, labelled)?;
    let output = OutputOptions::default();
    let study = Default::default();
    let first = labelled.first();
    let experiment = first.map_or(Ok(None), |(_, session, _)| Experiment::of_session(session))?;
    let sources = (labelled, experiment.as_deref());
    let mut document = sources::report_sources(sources, &findings, &study, settings, &output)?;
    let gate = CommandGate::new(&findings, fail_on, || {
        sources::compare_sources(labelled, &every_metric(settings)?).ok()
    });
    let (state, line) = commit_state(&findings, &gate);
    let description = line.unwrap_or_else(|| first_headline(&document));
    gate.add_to(&mut document, &OutputArgs::default());
    let (_, newest, _) = labelled.last().context("nothing to compare")?;
    let worktree = newest.variants.iter().rev().find_map(|variant| variant.worktree.as_ref());
    let variant_revision = worktree.map(|worktree| worktree.revision.clone());
    let session_revision = || newest.origin.as_ref().map(|origin| origin.revision.clone());
    Ok(PullAnswer {
        body: render_markdown(&document),
        stamp: result_stamp(variant_revision.or_else(session_revision), newest.started_unix_ms),
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
        stamp: result_stamp(None, unix_time_ms()),
        state: CommitState::Error,
        description: message,
        status: CommandStatus::FAILED,
        failure: Some(failure),
    }
}

fn result_stamp(revision: Option<String>, started_unix_ms: i64) -> ResultStamp {
    ResultStamp {
        revision: revision.unwrap_or_else(|| "unknown".to_owned()),
        at_unix_ms: measured_at(started_unix_ms),
    }
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
    let headline = document.all_blocks().into_iter().find_map(|block| match block {
        ReportBlock::Headline(text) => Some(text.clone()),
        _ => None,
    });
    headline.unwrap_or_default()
}

fn render_markdown(document: &Document) -> String {
    let mut text = Vec::new();
    // Writing to a vector cannot fail.
    let _ = ReportFormat::Markdown.file_renderer(Vec::new()).render(document, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

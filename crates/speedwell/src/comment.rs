//! `speedwell comment`: the answer as the one comment of a pull request, and as the status of its commit.
//!
//! Decides what is said where. That a forge refuses is a warning and never a failure, since the results are kept; how a
//! comment is found again is decided in `speedwell_forge`. Start at [`run`].

use super::options::{ComparisonArgs, SelectionArgs, StoreArgs};
use super::source::Source;
use super::{Status, operand, source, status};
use anyhow::{Context, bail, ensure};
use clap::Args;
use speedwell_analysis::Findings;
use speedwell_environment::{self as environment, Git};
use speedwell_forge::{self as forge, Client, Place, Posted, Stamp, State, Text, Token};
use speedwell_harness::Trial;
use speedwell_model::{OriginRequest, OriginSource, short_revision};
use speedwell_process::unix_ms;
use speedwell_report::sources::{self, Labelled};
use speedwell_report::{Block, Document, Format, Output};
use std::cmp::Ordering;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long git may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Say in a comment on a pull request what a comparison shows, and keep that one comment up to date
///
/// The comment is found again by a hidden mark and edited in place; an older result never replaces a newer one. In jobs of
/// GitHub, GitLab, Gitea and Forgejo, the pull request is that of the job. The token is read from GITHUB_TOKEN or GH_TOKEN,
/// GITLAB_TOKEN, GITEA_TOKEN or FORGEJO_TOKEN.
///
/// Exit status 0 also if the comment is refused, as it is for pull requests from forks, which is a warning.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell comment
  speedwell comment @base @latest --status --fail-on worse --threshold 2%
  speedwell comment --text report.md
  speedwell comment --on github:owner/name#12 --dry-run")]
pub struct CommentArgs {
    /// What to compare, as for 'compare' [default: @latest, with @base if it has a single variant]
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Say this Markdown instead; '-' is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sources", "status"])]
    text: Option<PathBuf>,
    /// The pull request: github:OWNER/NAME#12, gitlab:GROUP/NAME!12, gitea:https://HOST/OWNER/NAME#12; a server of
    /// one's own is named as for Gitea [default: that of the job]
    #[arg(long, value_name = "REQUEST")]
    on: Option<Place>,
    /// What the comment is about, where a pull request has several
    #[arg(long, value_name = "NAME", default_value = "compare")]
    check: String,
    /// Set the status of the commit as well: failure for what --fail-on refuses
    #[arg(long)]
    status: bool,
    /// The commit that gets the status [default: the newest of the pull request]
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
    /// A page that says more [default: that of the job]
    #[arg(long, value_name = "URL")]
    link: Option<String>,
    /// A file with the token, instead of a variable
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print what would be changed, and why; change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// What is said.
struct Answer {
    body: String,
    stamp: Stamp,
    state: State,
    /// In a line.
    description: String,
    /// Why there is no comparison.
    failure: Option<anyhow::Error>,
}

/// Comments.
///
/// # Errors
/// No pull request, no token, or nothing to compare, which is said in the comment as well.
pub fn run(args: CommentArgs) -> anyhow::Result<Status> {
    let origin = environment::origin(Path::new("."), &OriginRequest::default());
    let link = args.link.clone();
    let link = link.or_else(|| origin.as_ref().and_then(|origin| origin.job_url.clone()));
    let place = args.on.clone().or_else(|| Place::of_job(&variable));
    let mut answer = match &args.text {
        Some(path) => of_text(path)?,
        None => compared(&args),
    };
    let of_job = origin.filter(|origin| origin.source == OriginSource::Ci);
    if let Some(revision) = args.commit.clone().or(of_job.map(|own| own.revision)) {
        answer.stamp.revision = revision;
    }
    if let Some(link) = &link {
        ensure!(
            link.starts_with("https://") || link.starts_with("http://"),
            "'{link}' is no address of a page\nhint: --link https://..."
        );
        answer.body.push_str(&format!(
            "\n<sub>[the job](<{}>)</sub>\n",
            link.replace(['<', '>', '\n'], "")
        ));
    }
    if args.dry_run {
        std::io::stdout().write_all(answer.body.as_bytes())?;
    } else {
        let place = place.context(
            "which pull request? This is no job of one\nhint: --on github:OWNER/NAME#12 names it, --dry-run needs none",
        )?;
        let token = token(&args, &place)?;
        let client = Client::new(place.clone(), token);
        let said = say(&client, &place, &args, &answer, link);
        if let Err(refusal) = said {
            status::warn(&format!("{refusal}."));
        }
    }
    match answer.failure {
        Some(failure) => Err(failure),
        None => Ok(Status::DONE),
    }
}

/// A variable of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn token(args: &CommentArgs, place: &Place) -> anyhow::Result<Token> {
    if let Some(path) = &args.token_file {
        let text = fs::read_to_string(path);
        let text =
            text.with_context(|| format!("cannot read the token in '{}'", path.display()))?;
        return Ok(Token::new(text));
    }
    let names = place.forge.token_variables();
    let found = names.iter().find_map(|name| variable(name));
    let found = found.with_context(|| {
        format!(
            "there is no token for {place}\nhint: set {}, or name a file with --token-file",
            names.join(" or ")
        )
    })?;
    Ok(Token::new(found))
}

/// Markdown as it is.
fn of_text(path: &Path) -> anyhow::Result<Answer> {
    let mut body = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut body).map(drop)
    } else {
        fs::read_to_string(path).map(|text| body = text)
    };
    read.with_context(|| format!("cannot read '{}'", path.display()))?;
    ensure!(!body.trim().is_empty(), "'{}' says nothing", path.display());
    let at_unix_ms = u64::try_from(unix_ms()).unwrap_or_default();
    let stamp = Stamp {
        revision: "unknown".to_owned(),
        at_unix_ms,
    };
    Ok(Answer {
        body,
        stamp,
        state: State::Success,
        description: String::new(),
        failure: None,
    })
}

/// The comparison, or why there is none.
fn compared(args: &CommentArgs) -> Answer {
    answer(args).unwrap_or_else(|failure| {
        let reason = failure.to_string();
        let reason = reason.split("\nhint: ").next().unwrap_or_default();
        let words = format!("not compared: {reason}");
        let mut document = Document::new("comment");
        document.push(Block::Headline(words.clone()));
        Answer {
            body: markdown(&document),
            stamp: Stamp {
                revision: "unknown".to_owned(),
                at_unix_ms: u64::try_from(unix_ms()).unwrap_or_default(),
            },
            state: State::Error,
            description: words,
            failure: Some(failure),
        }
    })
}

fn answer(args: &CommentArgs) -> anyhow::Result<Answer> {
    let found = read(args)?;
    source::refuse_the_same(&found)?;
    let labelled: Vec<Labelled<'_>> = found.iter().map(Source::labelled).collect();
    let settings = args.comparison.settings(&args.selection.metric.names, None);
    let mut findings = sources::compare(&labelled, &settings)?;
    let sessions = labelled.iter().map(|(_, session, _)| *session);
    args.store.mark(&mut findings, sessions);
    sources::check(&findings)?;
    let output = Output::default();
    let document = sources::document(
        &labelled,
        &findings,
        &Default::default(),
        &settings,
        &output,
    )?;
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
            revision: of_variant
                .or_else(of_session)
                .unwrap_or_else(|| "unknown".to_owned()),
            at_unix_ms: u64::try_from(newest.started_unix_ms).unwrap_or_default(),
        },
        state: state(&findings, args),
        description: headline(&document),
        failure: None,
    })
}

/// The sources that were typed; without any, the newest session, with what its branch left where it compares nothing itself.
fn read(args: &CommentArgs) -> anyhow::Result<Vec<Source>> {
    let selection = args.selection.selection(&[], Trial::No)?;
    let read = |words: &[String]| {
        let operands = operand::parse_all(words)?;
        source::read(&operands, &selection, &mut || args.store.open_to_read())
    };
    if !args.sources.is_empty() {
        return read(&args.sources);
    }
    let newest = read(&["@latest".to_owned()])?;
    if newest
        .iter()
        .any(|source| source.session.variants.len() > 1)
    {
        return Ok(newest);
    }
    read(&["@base".to_owned(), "@latest".to_owned()])
}

/// What the commit is told. What failed was not compared, so nothing can be said.
fn state(findings: &Findings, args: &CommentArgs) -> State {
    if status::judge(findings, args.comparison.fail_on) == Status::NO {
        State::Failure
    } else if findings.failures.is_empty() {
        State::Success
    } else {
        State::Error
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

/// Says it, and on stderr what became of it.
fn say(
    client: &Client,
    place: &Place,
    args: &CommentArgs,
    answer: &Answer,
    link: Option<String>,
) -> Result<(), forge::Error> {
    let project = place.repository.rsplit('/').next().unwrap_or_default();
    let text = Text {
        marker: format!("speedwell:{project}:{}", args.check),
        stamp: answer.stamp.clone(),
        body: answer.body.clone(),
    };
    let posted = client.comment(&text, &|one, other| order(one, other))?;
    status::note(&match posted {
        Posted::Created(id) => format!("wrote comment {id} on {place}"),
        Posted::Edited(id) => format!("comment {id} on {place} says it now"),
        Posted::Unchanged(id) => format!("comment {id} on {place} said it already"),
        Posted::Outdated(id) => {
            format!("comment {id} on {place} is about a newer result, and stays")
        }
    });
    if args.status {
        let context = format!("speedwell/{}", args.check);
        client.set_status(&forge::Status {
            revision: answer.stamp.revision.clone(),
            context: context.clone(),
            state: answer.state,
            description: answer.description.clone(),
            link,
        })?;
        let revision = short_revision(&answer.stamp.revision);
        status::note(&format!("set the status '{context}' of {revision}"));
    }
    Ok(())
}

/// Which of two revisions is newer, where one leads to the other.
fn order(one: &str, other: &str) -> Option<Ordering> {
    let git = Git::at(Path::new("."), LIMIT);
    let (one, other) = (git.commit_id(one)?, git.commit_id(other)?);
    if one == other {
        return Some(Ordering::Equal);
    }
    match git.merge_base(&one, &other)? {
        base if base == one => Some(Ordering::Less),
        base if base == other => Some(Ordering::Greater),
        _ => None,
    }
}

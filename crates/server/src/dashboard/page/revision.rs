//! Builds the pages that show the sessions of some code: `/PROJECT/revisions/ID`,
//! `/PROJECT/branches/NAME` and, with its comments, `/PROJECT/pulls/NUMBER`; and `/PROJECT/pulls`, the
//! list of pull requests.

use crate::clients::forge::RepositoryPages;
use crate::dashboard::address::{PageFormat, encode_segment, nearest_links};
use crate::dashboard::page::{PageContent, PageContext, PageResult, link_column};
use crate::http::HttpError;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{CodeOrigin, SessionReference, short_revision};
use speedwell_report::html::PageLink;
use speedwell_report::{
    Document, PullLine, ReportBlock, format_moment, list_pulls, markdown_answer, markdown_blocks,
};
use speedwell_store::{CommentJob, CommentState, PostedComment, SessionFilter};

/// Maximum number of sessions or pull requests listed.
const MAX_ROWS: usize = 50;

pub fn revision_page(context: PageContext<'_>) -> PageResult {
    let id = context.name;
    context.query.check_names(&[])?;
    let matches_found = context.store.revisions_with_prefix(id, 6)?;
    let revision = match &matches_found[..] {
        _ if matches_found.iter().any(|candidate| candidate == id) => id.to_owned(),
        [only] => return Ok(PageContent::redirect_to(context.revision_href(only))),
        [] => {
            return Err(HttpError::not_found(format!("no sessions for revision '{id}'"))
                .with_hint(format!("measure it with: speedwell run --variant 'then=rev:{id}'"))
                .with_nearest(vec![(context.page_href("sessions"), "sessions".into())]));
        }
        several => {
            let pages = several.iter().map(|id| (context.revision_href(id), id.clone()));
            return Err(HttpError::not_found(format!(
                "'{id}' is ambiguous: several revisions start with it"
            ))
            .with_nearest(pages.collect()));
        }
    };
    let filter = SessionFilter { revision: Some(revision.clone()), ..SessionFilter::default() };
    let sessions = context.store.select_sessions(&filter, MAX_ROWS)?;
    let origin = sessions.iter().find_map(|session| session.origin.as_ref());
    let mut document = Document::new("revision");
    let subject = origin.and_then(|origin| origin.subject.as_deref());
    let name = short_revision(&revision);
    document.push(ReportBlock::Headline(match subject {
        Some(subject) => format!("{name}: {subject}"),
        None => format!("revision {name}"),
    }));
    document.extend(origin.map(revision_facts));
    document.append_document(context.list_sessions(&sessions, None));
    Ok(PageContent {
        crumbs: context.crumbs(
            "sessions",
            context.revision_href(&revision),
            format!("revision {name}"),
        ),
        links: revision_links(context, &revision, origin)?,
        choice: (sessions.len() > 1).then(|| context.row_choice()),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    })
}

fn revision_facts(origin: &CodeOrigin) -> ReportBlock {
    let parents = origin.parents.iter().map(|parent| short_revision(parent));
    let facts = [
        ("Revision", Some(origin.revision.clone())),
        ("Committed (UTC)", origin.committed_unix_ms.map(format_moment)),
        ("Branch", origin.branch.clone()),
        ("Parents", Some(parents.collect::<Vec<_>>().join(" "))),
        ("Pull request", origin.pull.clone()),
        ("Job", origin.job_url.clone()),
    ];
    let known_facts = facts.into_iter().filter_map(|(name, fact)| {
        let value = fact.filter(|value| !value.is_empty())?;
        Some((name.to_owned(), value))
    });
    ReportBlock::Facts(known_facts.collect())
}

/// Returns links to the branch, and to comparisons with the base and the parents that were
/// measured.
fn revision_links(
    context: PageContext<'_>,
    id: &str,
    origin: Option<&CodeOrigin>,
) -> Result<Vec<PageLink>, HttpError> {
    let mut links = Vec::new();
    let Some(origin) = origin else {
        return Ok(links);
    };
    let is_measured = |id: &str| {
        context.store.resolve_reference(&SessionReference::Revision(id.to_owned())).is_ok()
    };
    let base = origin.base.iter().map(|base| ("base", base));
    let parents = origin.parents.iter().map(|parent| ("parent", parent));
    for (label, earlier) in base.chain(parents) {
        if earlier != id && is_measured(earlier) && is_measured(id) {
            links.push(PageLink::new(
                context.compare_href(&format!("@rev:{earlier}"), &format!("@rev:{id}")),
                format!("compare with {label} {}", short_revision(earlier)),
            ));
        }
    }
    if let Some(branch) = &origin.branch {
        links.push(PageLink::new(context.branch_href(branch), format!("branch {branch}")));
    }
    Ok(links)
}

/// Common names of the default branch.
const DEFAULT_BRANCHES: [&str; 2] = ["main", "master"];

pub fn branch_page(context: PageContext<'_>) -> PageResult {
    let name = context.name;
    context.query.check_names(&[])?;
    let filter = SessionFilter { branch: Some(name.to_owned()), ..SessionFilter::default() };
    let sessions = context.store.select_sessions(&filter, MAX_ROWS)?;
    let [branches, _] = context.store.branches_and_tags()?;
    if sessions.is_empty() {
        let names = branches.iter().map(String::as_str);
        return Err(HttpError::not_found(format!("no sessions on branch '{name}'"))
            .with_nearest(nearest_links(name, names, |branch| context.branch_href(branch))));
    }
    let mut document = Document::new("branch");
    document.push(ReportBlock::Headline(format!("branch {name}")));
    document.append_document(context.list_sessions(&sessions, None));
    let trend = context.page_href(&format!("trend?branch={}", encode_segment(name)));
    let sessions_href = context.page_href(&format!("sessions?branch={}", encode_segment(name)));
    let mut links =
        vec![PageLink::new(trend, "trend"), PageLink::new(sessions_href, "all sessions")];
    let default_branches = branches
        .iter()
        .filter(|branch| *branch != name && DEFAULT_BRANCHES.contains(&branch.as_str()));
    for default_branch in default_branches {
        links.push(PageLink::new(
            context.compare_href(&format!("@branch:{default_branch}"), &format!("@branch:{name}")),
            format!("compare with {default_branch}"),
        ));
    }
    Ok(PageContent {
        crumbs: context.crumbs("sessions", context.branch_href(name), format!("branch {name}")),
        links,
        choice: (sessions.len() > 1).then(|| context.row_choice()),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    })
}

pub fn pulls_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    let pulls = context.store.list_pulls(MAX_ROWS + 1)?;
    let numbers = pulls.iter().take(MAX_ROWS).filter_map(|(_, newest)| *newest).collect();
    let filter = SessionFilter { numbers: Some(numbers), ..SessionFilter::default() };
    let sessions = context.store.select_sessions(&filter, MAX_ROWS)?;
    let lines: Result<Vec<PullLine>, HttpError> = pulls
        .iter()
        .take(MAX_ROWS)
        .map(|(pull, newest)| {
            let newest = sessions.iter().find(|session| Some(session.number) == *newest);
            pull_line(context, pull, newest)
        })
        .collect();
    let mut document = list_pulls(&lines?);
    if pulls.len() > MAX_ROWS {
        let note = format!("Only the {MAX_ROWS} most recently measured pull requests are listed.");
        document.push(ReportBlock::Note(note));
    }
    link_column(&mut document, "pulls", "pull", |pull| {
        Some(context.page_href(&format!("pulls/{}", encode_segment(pull.as_str()?))))
    });
    context.link_code(&mut document, "pulls");
    context.link_numbers(&mut document, "pulls", "newest");
    Ok(PageContent {
        crumbs: vec![context.page_link("pulls", "pull requests")],
        ..PageContent::from_document(document)
    })
}

/// Describes a pull request: what its newest comment says, and whether the comment was posted.
fn pull_line(
    context: PageContext<'_>,
    pull: &str,
    newest: Option<&SessionOverview>,
) -> Result<PullLine, HttpError> {
    let comment = context.store.newest_comment(pull)?;
    let job = context.store.comment_job(pull)?;
    let reason = job.as_ref().and_then(|job| job.reason.as_deref());
    let status = match job.as_ref().map(|job| job.state) {
        Some(CommentState::Waiting) => "waiting".to_owned(),
        Some(CommentState::Refused) => format!("rejected: {}", reason.unwrap_or("no reason given")),
        Some(CommentState::Posted) => "posted".to_owned(),
        None if comment.is_some() => "posted".to_owned(),
        None => String::new(),
    };
    Ok(PullLine {
        number: pull.to_owned(),
        newest: newest.cloned(),
        verdict: comment.map(|comment| markdown_answer(&comment.text)).unwrap_or_default(),
        status,
        is_refused: job.is_some_and(|job| job.state == CommentState::Refused),
    })
}

/// Returns the pages of the repository on its forge, if the project has one.
pub fn repository_pages(context: PageContext<'_>) -> Result<Option<RepositoryPages>, HttpError> {
    let setting = context.store.forge_setting()?;
    Ok(setting.and_then(|setting| RepositoryPages::parse(&setting.repository)))
}

pub fn pull_page(context: PageContext<'_>) -> PageResult {
    let pull = context.name;
    context.query.check_names(&[])?;
    let filter = SessionFilter { pull: Some(pull.to_owned()), ..SessionFilter::default() };
    let sessions = context.store.select_sessions(&filter, MAX_ROWS)?;
    let comments = context.store.posted_comments(pull)?;
    let job = context.store.comment_job(pull)?;
    if sessions.is_empty() && comments.is_empty() && job.is_none() {
        return Err(HttpError::not_found(format!(
            "no sessions for pull request '{pull}'"
        ))
        .with_hint(
            "this page lists sessions that were measured in a GitHub, GitLab, Gitea or Forgejo job \
             of the pull request",
        )
        .with_nearest(vec![(context.page_href("pulls"), "pull requests".into())]));
    }
    let mut document = Document::new("pull");
    document.push(ReportBlock::Headline(format!("pull request {pull}")));
    if !sessions.is_empty() {
        document.append_document(context.list_sessions(&sessions, None));
    }
    document.extend(job.as_ref().and_then(comment_status));
    push_comments(&mut document, &comments, context.format);
    Ok(PageContent {
        crumbs: vec![
            context.page_link("pulls", "pull requests"),
            context.page_link(&format!("pulls/{}", encode_segment(pull)), format!("#{pull}")),
        ],
        links: pull_links(context, &sessions)?,
        choice: (sessions.len() > 1).then(|| context.row_choice()),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    })
}

/// Returns links to the pull request on its forge, to the comparison with its base, and to its
/// newest revision.
fn pull_links(
    context: PageContext<'_>,
    sessions: &[SessionOverview],
) -> Result<Vec<PageLink>, HttpError> {
    let mut links = Vec::new();
    let pages = repository_pages(context)?;
    if let Some(href) = pages.and_then(|pages| pages.pull_url(context.name)) {
        links.push(PageLink::new(href, "on the forge"));
    }
    let head = sessions.iter().find_map(|session| session.origin.as_ref());
    if let Some(origin) = head {
        if let Some(base) = &origin.base {
            links.push(PageLink::new(
                context.compare_href(&format!("@rev:{base}"), &format!("@rev:{}", origin.revision)),
                "compare with base",
            ));
        }
        links.push(PageLink::new(context.revision_href(&origin.revision), "newest revision"));
    }
    Ok(links)
}

/// Describes a pending or rejected comment.
fn comment_status(job: &CommentJob) -> Option<ReportBlock> {
    let revision = short_revision(&job.revision);
    let reason = job.reason.as_deref().unwrap_or_default();
    Some(match (job.state, reason) {
        (CommentState::Posted, _) => return None,
        (CommentState::Waiting, "") => {
            ReportBlock::Note(format!("The comment on {revision} is queued."))
        }
        (CommentState::Waiting, reason) => ReportBlock::Note(format!(
            "The comment on {revision} could not be posted yet and will be retried: {reason}."
        )),
        (CommentState::Refused, reason) => {
            ReportBlock::Warning(format!("The comment on {revision} was rejected: {reason}."))
        }
    })
}

/// Adds the posted comments, newest first. A page shows them as the forge does.
fn push_comments(document: &mut Document, comments: &[PostedComment], format: PageFormat) {
    for (index, comment) in comments.iter().enumerate() {
        let posted_at = format_moment(comment.posted_unix_ms);
        document.push_heading(
            2,
            match index {
                0 => format!("Comment posted {posted_at} (UTC)"),
                _ => format!("Earlier comment, posted {posted_at} (UTC)"),
            },
        );
        document.push(ReportBlock::Facts(vec![
            ("Repository".into(), format!("{} on {}", comment.repository, comment.forge)),
            ("Revision".into(), comment.revision.clone()),
        ]));
        if format == PageFormat::Page {
            document.extend(markdown_blocks(&comment.text));
            continue;
        }
        // Omit the hidden lines that identify the comment to later updates.
        let lines = comment.text.lines().filter(|line| !line.starts_with("<!--"));
        let text: Vec<&str> = lines.collect();
        document.push(ReportBlock::Verbatim { label: "Markdown".into(), text: text.join("\n") });
    }
}

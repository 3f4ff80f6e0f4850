//! Builds `/PROJECT/pulls/NUMBER`, which shows the sessions and comments of a pull request.

use crate::dashboard::page::content::{PageContent, PageContext, PageResult};
use crate::http::HttpError;
use speedwell_model::short_revision;
use speedwell_report::html::PageLink;
use speedwell_report::{Document, ReportBlock, format_moment};
use speedwell_store::{CommentJob, CommentState, PostedComment, SessionFilter};

/// Maximum number of sessions listed.
const MAX_SESSIONS: usize = 50;

pub fn pull_page(context: PageContext<'_>) -> PageResult {
    let pull = context.name;
    context.query.check_names(&[])?;
    let filter = SessionFilter { pull: Some(pull.to_owned()), ..SessionFilter::default() };
    let sessions = context.store.select_sessions(&filter, MAX_SESSIONS)?;
    let comments = context.store.posted_comments(pull)?;
    if sessions.is_empty() && comments.is_empty() {
        return Err(HttpError::not_found(format!(
            "no sessions for pull request '{pull}'"
        ))
        .with_hint(
            "this page lists sessions that were measured in a GitHub, GitLab, Gitea or Forgejo job \
             of the pull request",
        )
        .with_nearest(vec![(context.page_href("sessions"), "sessions".into())]));
    }
    let mut document = Document::new("pull");
    document.push(ReportBlock::Headline(format!("pull request {pull}")));
    if !sessions.is_empty() {
        document.append_document(context.list_sessions(&sessions));
    }
    if let Some(job) = context.store.comment_job(pull)? {
        document.extend(comment_status(&job));
    }
    push_comments(&mut document, &comments);
    let mut links = Vec::new();
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
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(context.page_href("sessions"), "sessions"),
            PageLink::new(
                context.page_href(&format!("pulls/{pull}")),
                format!("pull request {pull}"),
            ),
        ],
        links,
        choice: (sessions.len() > 1).then(|| context.row_choice()).flatten(),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    }
    .into())
}

/// Describes a pending or rejected comment.
fn comment_status(job: &CommentJob) -> Option<ReportBlock> {
    let revision = short_revision(&job.revision);
    let reason = job.reason.as_deref().unwrap_or_default();
    match (job.state, reason) {
        (CommentState::Posted, _) => None,
        (CommentState::Waiting, "") => {
            Some(ReportBlock::Note(format!("The comment on {revision} is queued.")))
        }
        (CommentState::Waiting, reason) => Some(ReportBlock::Note(format!(
            "The comment on {revision} could not be posted yet and will be retried: {reason}."
        ))),
        (CommentState::Refused, reason) => {
            Some(ReportBlock::Warning(format!("The comment on {revision} was rejected: {reason}.")))
        }
    }
}

/// Adds the posted comments, newest first.
fn push_comments(document: &mut Document, comments: &[PostedComment]) {
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
        // Omit the hidden lines that identify the comment to later updates.
        let lines = comment.text.lines().filter(|line| !line.starts_with("<!--"));
        let text: Vec<&str> = lines.collect();
        document.push(ReportBlock::Verbatim { label: "Markdown".into(), text: text.join("\n") });
    }
}

//! `/PROJECT/pulls/NUMBER`: sessions and comments of a pull request.

use super::{PageContent, PageContext};
use crate::refusal::PageError;
use speedwell_model::short_revision;
use speedwell_report::html::PageLink;
use speedwell_report::{Document, ReportBlock, format_moment};
use speedwell_results::store::{CommentJob, CommentState, PostedComment, SessionFilter};

/// Sessions listed.
const MAX_SESSIONS: usize = 50;

pub fn pull_page(visit: PageContext<'_>, pull: &str) -> Result<PageContent, PageError> {
    visit.query.check_names(&[])?;
    let filter = SessionFilter {
        pull: Some(pull.to_owned()),
        ..SessionFilter::default()
    };
    let sessions = visit.store.select_sessions(&filter, MAX_SESSIONS)?;
    let comments = visit.store.posted_comments(pull)?;
    if sessions.is_empty() && comments.is_empty() {
        return Err(PageError::not_found(format!(
            "nothing was measured of a pull request '{pull}'"
        ))
        .with_hint("sessions know theirs where a job of GitHub, GitLab or Gitea measured them")
        .with_nearest(vec![(visit.page_href("sessions"), "sessions".into())]));
    }
    let mut document = Document::new("pull");
    document.push(ReportBlock::Headline(format!("pull request {pull}")));
    if !sessions.is_empty() {
        document.append_document(visit.list_sessions(&sessions));
    }
    if let Some(job) = visit.store.comment_job(pull)? {
        document.extend(comment_status(&job));
    }
    push_comments(&mut document, &comments);
    let mut links = Vec::new();
    let head = sessions.iter().find_map(|session| session.origin.as_ref());
    if let Some(origin) = head {
        if let Some(base) = &origin.base {
            links.push(PageLink::new(
                visit.compare_href(
                    &format!("@rev:{base}"),
                    &format!("@rev:{}", origin.revision),
                ),
                "compare with its base",
            ));
        }
        links.push(PageLink::new(
            visit.revision_href(&origin.revision),
            "its newest revision",
        ));
    }
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(visit.page_href("sessions"), "sessions"),
            PageLink::new(
                visit.page_href(&format!("pulls/{pull}")),
                format!("pull request {pull}"),
            ),
        ],
        links,
        choice: (sessions.len() > 1).then(|| visit.row_choice()).flatten(),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    })
}

/// Describes a pending or rejected comment.
fn comment_status(job: &CommentJob) -> Option<ReportBlock> {
    let revision = short_revision(&job.revision);
    let reason = job.reason.as_deref().unwrap_or_default();
    match (job.state, reason) {
        (CommentState::Said, _) => None,
        (CommentState::Waiting, "") => Some(ReportBlock::Note(format!(
            "The comment about {revision} is about to be written."
        ))),
        (CommentState::Waiting, why) => Some(ReportBlock::Note(format!(
            "The comment about {revision} could not be written yet, and is tried again: {why}."
        ))),
        (CommentState::Refused, why) => Some(ReportBlock::Warning(format!(
            "The comment about {revision} was refused: {why}."
        ))),
    }
}

/// Adds the posted comments, newest first.
fn push_comments(document: &mut Document, comments: &[PostedComment]) {
    for (place, comment) in comments.iter().enumerate() {
        let when = format_moment(comment.posted_unix_ms);
        document.push_heading(
            2,
            match place {
                0 => format!("The comment, as posted {when} (UTC)"),
                _ => format!("Before, posted {when} (UTC)"),
            },
        );
        document.push(ReportBlock::Facts(vec![
            (
                "On".into(),
                format!("{} of {}", comment.repository, comment.forge),
            ),
            ("About".into(), comment.revision.clone()),
        ]));
        // Omit the hidden marker lines by which the comment is found again.
        let lines = comment
            .text
            .lines()
            .filter(|line| !line.starts_with("<!--"));
        let text: Vec<&str> = lines.collect();
        document.push(ReportBlock::Verbatim {
            label: "Markdown".into(),
            text: text.join("\n"),
        });
    }
}

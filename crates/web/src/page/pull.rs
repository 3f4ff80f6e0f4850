//! `/PROJECT/pulls/NUMBER`: sessions and comments of a pull request.

use super::{Page, Visit};
use crate::refusal::Refusal;
use speedwell_model::short_revision;
use speedwell_report::html::Link;
use speedwell_report::{Block, Document, moment};
use speedwell_results::store::{CommentJob, PostedComment, Said, SessionFilter};

/// Sessions listed.
const ROWS: usize = 50;

pub fn page(visit: Visit<'_>, pull: &str) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let filter = SessionFilter {
        pull: Some(pull.to_owned()),
        ..SessionFilter::default()
    };
    let sessions = visit.store.selected(&filter, ROWS)?;
    let comments = visit.store.comments(pull)?;
    if sessions.is_empty() && comments.is_empty() {
        return Err(
            Refusal::missing(format!("nothing was measured of a pull request '{pull}'"))
                .hint("sessions know theirs where a job of GitHub, GitLab or Gitea measured them")
                .nearest(vec![(visit.href("sessions"), "sessions".into())]),
        );
    }
    let mut document = Document::new("pull");
    document.push(Block::Headline(format!("pull request {pull}")));
    if !sessions.is_empty() {
        document.append(visit.list(&sessions));
    }
    if let Some(job) = visit.store.comment_job(pull)? {
        document.extend(standing(&job));
    }
    push_comments(&mut document, &comments);
    let mut links = Vec::new();
    let head = sessions.iter().find_map(|session| session.origin.as_ref());
    if let Some(origin) = head {
        if let Some(base) = &origin.base {
            links.push(Link::new(
                visit.compare(
                    &format!("@rev:{base}"),
                    &format!("@rev:{}", origin.revision),
                ),
                "compare with its base",
            ));
        }
        links.push(Link::new(
            visit.revision(&origin.revision),
            "its newest revision",
        ));
    }
    Ok(Page {
        crumbs: vec![
            Link::new(visit.href("sessions"), "sessions"),
            Link::new(
                visit.href(&format!("pulls/{pull}")),
                format!("pull request {pull}"),
            ),
        ],
        links,
        choice: (sessions.len() > 1).then(|| visit.choice()).flatten(),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..Page::of(document)
    })
}

/// Describes a pending or rejected comment.
fn standing(job: &CommentJob) -> Option<Block> {
    let revision = short_revision(&job.revision);
    let reason = job.reason.as_deref().unwrap_or_default();
    match (job.state, reason) {
        (Said::Said, _) => None,
        (Said::Waiting, "") => Some(Block::Note(format!(
            "The comment about {revision} is about to be written."
        ))),
        (Said::Waiting, why) => Some(Block::Note(format!(
            "The comment about {revision} could not be written yet, and is tried again: {why}."
        ))),
        (Said::Refused, why) => Some(Block::Warning(format!(
            "The comment about {revision} was refused: {why}."
        ))),
    }
}

/// Adds the posted comments, newest first.
fn push_comments(document: &mut Document, comments: &[PostedComment]) {
    for (place, comment) in comments.iter().enumerate() {
        let when = moment(comment.posted_unix_ms);
        document.push_heading(
            2,
            match place {
                0 => format!("The comment, as posted {when} (UTC)"),
                _ => format!("Before, posted {when} (UTC)"),
            },
        );
        document.push(Block::Facts(vec![
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
        document.push(Block::Verbatim {
            label: "Markdown".into(),
            text: text.join("\n"),
        });
    }
}

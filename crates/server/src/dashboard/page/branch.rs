//! Builds `/PROJECT/branches/NAME`, which lists the sessions of one branch.

use crate::dashboard::link::{encode_segment, nearest_names};
use crate::dashboard::page::content::{PageContent, PageContext, PageResult};
use crate::http::HttpError;
use speedwell_report::html::PageLink;
use speedwell_report::{Document, ReportBlock};
use speedwell_store::SessionFilter;

/// Maximum number of sessions listed; the sessions page lists all of them.
const MAX_SESSIONS: usize = 50;

/// Common names of the default branch.
const DEFAULT_BRANCHES: [&str; 2] = ["main", "master"];

pub fn branch_page(context: PageContext<'_>) -> PageResult {
    let name = context.name;
    context.query.check_names(&[])?;
    let filter = SessionFilter { branch: Some(name.to_owned()), ..SessionFilter::default() };
    let sessions = context.store.select_sessions(&filter, MAX_SESSIONS)?;
    let [branches, _] = context.store.branches_and_tags()?;
    if sessions.is_empty() {
        let pages = nearest_names(name, branches.iter().map(String::as_str))
            .into_iter()
            .map(|branch| (context.branch_href(branch), branch.to_owned()));
        return Err(HttpError::not_found(format!("no sessions on branch '{name}'"))
            .with_nearest(pages.collect()));
    }
    let mut document = Document::new("branch");
    document.push(ReportBlock::Headline(format!("branch {name}")));
    document.append_document(context.list_sessions(&sessions));
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
        crumbs: vec![
            PageLink::new(context.page_href("sessions"), "sessions"),
            PageLink::new(context.branch_href(name), format!("branch {name}")),
        ],
        links,
        choice: (sessions.len() > 1).then(|| context.row_choice()).flatten(),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    }
    .into())
}

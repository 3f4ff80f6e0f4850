//! `/PROJECT/branches/NAME`: sessions of one branch.

use super::{PageContent, PageContext};
use crate::link::encode_segment;
use crate::refusal::{PageError, nearest_names};
use speedwell_report::html::PageLink;
use speedwell_report::{Document, ReportBlock};
use speedwell_results::store::SessionFilter;

/// Sessions listed; the page of sessions has all.
const MAX_SESSIONS: usize = 50;

/// Usual names of the default branch.
const DEFAULT_BRANCHES: [&str; 2] = ["main", "master"];

pub fn branch_page(visit: PageContext<'_>, name: &str) -> Result<PageContent, PageError> {
    visit.query.check_names(&[])?;
    let filter = SessionFilter {
        branch: Some(name.to_owned()),
        ..SessionFilter::default()
    };
    let sessions = visit.store.select_sessions(&filter, MAX_SESSIONS)?;
    let [branches, _] = visit.store.branches_and_tags()?;
    if sessions.is_empty() {
        let pages = nearest_names(name, branches.iter().map(String::as_str))
            .into_iter()
            .map(|branch| (visit.branch_href(branch), branch.to_owned()));
        return Err(
            PageError::not_found(format!("no sessions on branch '{name}'"))
                .with_nearest(pages.collect()),
        );
    }
    let mut document = Document::new("branch");
    document.push(ReportBlock::Headline(format!("branch {name}")));
    document.append_document(visit.list_sessions(&sessions));
    let trend = visit.page_href(&format!("trend?branch={}", encode_segment(name)));
    let sessions_href = visit.page_href(&format!("sessions?branch={}", encode_segment(name)));
    let mut links = vec![
        PageLink::new(trend, "trend"),
        PageLink::new(sessions_href, "all sessions"),
    ];
    let others = branches
        .iter()
        .filter(|branch| *branch != name && DEFAULT_BRANCHES.contains(&branch.as_str()));
    for other in others {
        links.push(PageLink::new(
            visit.compare_href(&format!("@branch:{other}"), &format!("@branch:{name}")),
            format!("compare with {other}"),
        ));
    }
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(visit.page_href("sessions"), "sessions"),
            PageLink::new(visit.branch_href(name), format!("branch {name}")),
        ],
        links,
        choice: (sessions.len() > 1).then(|| visit.row_choice()).flatten(),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    })
}

//! Builds `/PROJECT/revisions/ID` and `/PROJECT/branches/NAME`, which show the sessions of a revision
//! and of a branch.

use crate::dashboard::address::{encode_segment, nearest_names};
use crate::dashboard::page::{PageContent, PageContext, PageResult};
use crate::http::HttpError;
use speedwell_model::{CodeOrigin, SessionReference, short_revision};
use speedwell_report::html::PageLink;
use speedwell_report::{Document, ReportBlock, format_moment};
use speedwell_store::SessionFilter;

/// Maximum number of sessions listed.
const MAX_SESSIONS: usize = 50;

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
    let sessions = context.store.select_sessions(&filter, MAX_SESSIONS)?;
    let origin = sessions.iter().find_map(|session| session.origin.as_ref());
    let mut document = Document::new("revision");
    let subject = origin.and_then(|origin| origin.subject.as_deref());
    let name = short_revision(&revision);
    document.push(ReportBlock::Headline(match subject {
        Some(subject) => format!("{name}: {subject}"),
        None => format!("revision {name}"),
    }));
    document.extend(origin.map(revision_facts));
    document.append_document(context.list_sessions(&sessions));
    Ok(PageContent {
        crumbs: vec![
            context.page_link("sessions", "sessions"),
            PageLink::new(context.revision_href(&revision), format!("revision {name}")),
        ],
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
            context.page_link("sessions", "sessions"),
            PageLink::new(context.branch_href(name), format!("branch {name}")),
        ],
        links,
        choice: (sessions.len() > 1).then(|| context.row_choice()),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    })
}

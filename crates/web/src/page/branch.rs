//! `/PROJECT/branches/NAME`: sessions of one branch.

use super::{Page, Visit};
use crate::link::encoded;
use crate::refusal::{Refusal, nearest};
use speedwell_report::html::Link;
use speedwell_report::{Block, Document};
use speedwell_results::store::SessionFilter;

/// Sessions listed; the page of sessions has all.
const ROWS: usize = 50;

/// Usual names of the default branch.
const USUAL: [&str; 2] = ["main", "master"];

pub fn page(visit: Visit<'_>, name: &str) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let filter = SessionFilter {
        branch: Some(name.to_owned()),
        ..SessionFilter::default()
    };
    let sessions = visit.store.selected(&filter, ROWS)?;
    let [branches, _] = visit.store.branches_and_tags()?;
    if sessions.is_empty() {
        let pages = nearest(name, branches.iter().map(String::as_str)).into_iter();
        let pages = pages.map(|branch| (visit.branch(branch), branch.to_owned()));
        return Err(
            Refusal::missing(format!("nothing was measured on a branch '{name}'"))
                .nearest(pages.collect()),
        );
    }
    let mut document = Document::new("branch");
    document.push(Block::Headline(format!("branch {name}")));
    document.append(visit.list(&sessions));
    let trend = visit.href(&format!("trend?branch={}", encoded(name)));
    let all = visit.href(&format!("sessions?branch={}", encoded(name)));
    let mut links = vec![
        Link::new(trend, "trend"),
        Link::new(all, "all its sessions"),
    ];
    let others = branches
        .iter()
        .filter(|branch| *branch != name && USUAL.contains(&branch.as_str()));
    for other in others {
        links.push(Link::new(
            visit.compare(&format!("@branch:{other}"), &format!("@branch:{name}")),
            format!("compare with {other}"),
        ));
    }
    Ok(Page {
        crumbs: vec![
            Link::new(visit.href("sessions"), "sessions"),
            Link::new(visit.branch(name), format!("branch {name}")),
        ],
        links,
        choice: (sessions.len() > 1).then(|| visit.choice()).flatten(),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..Page::of(document)
    })
}

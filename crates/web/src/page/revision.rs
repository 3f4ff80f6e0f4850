//! `/PROJECT/revisions/ID`: sessions of one revision.

use super::{Outcome, Page, Visit};
use crate::refusal::Refusal;
use speedwell_model::{Origin, short_revision};
use speedwell_report::html::Link;
use speedwell_report::{Block, Document, moment};
use speedwell_results::store::{Reference, SessionFilter};

/// Sessions listed.
const ROWS: usize = 50;

pub fn page(visit: Visit<'_>, id: &str) -> Result<Outcome, Refusal> {
    visit.query.check(&[])?;
    let found = visit.store.revisions_beginning(id, 6)?;
    let revision = match &found[..] {
        _ if found.iter().any(|known| known == id) => id.to_owned(),
        [only] => return Ok(Outcome::Elsewhere(visit.revision(only))),
        [] => {
            return Err(
                Refusal::missing(format!("revision '{id}' was not measured"))
                    .hint(format!(
                        "speedwell run --variant 'then=rev:{id}' measures it"
                    ))
                    .nearest(vec![(visit.href("sessions"), "sessions".into())]),
            );
        }
        several => {
            let pages = several.iter().map(|id| (visit.revision(id), id.clone()));
            return Err(
                Refusal::missing(format!("several revisions begin with '{id}'"))
                    .nearest(pages.collect()),
            );
        }
    };
    let filter = SessionFilter {
        revision: Some(revision.clone()),
        ..SessionFilter::default()
    };
    let sessions = visit.store.selected(&filter, ROWS)?;
    let origin = sessions.iter().find_map(|session| session.origin.as_ref());
    let mut document = Document::new("revision");
    let subject = origin.and_then(|origin| origin.subject.as_deref());
    let name = short_revision(&revision);
    document.push(Block::Headline(match subject {
        Some(subject) => format!("{name}: {subject}"),
        None => format!("revision {name}"),
    }));
    document.extend(origin.map(facts));
    document.append(visit.list(&sessions));
    Ok(Page {
        crumbs: vec![
            Link::new(visit.href("sessions"), "sessions"),
            Link::new(visit.revision(&revision), format!("revision {name}")),
        ],
        links: links(visit, &revision, origin)?,
        choice: (sessions.len() > 1).then(|| visit.choice()).flatten(),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..Page::of(document)
    }
    .into())
}

fn facts(origin: &Origin) -> Block {
    let parents = origin.parents.iter().map(|parent| short_revision(parent));
    let facts = [
        ("Revision", Some(origin.revision.clone())),
        ("Committed (UTC)", origin.committed_unix_ms.map(moment)),
        ("Branch", origin.branch.clone()),
        ("Follows", Some(parents.collect::<Vec<_>>().join(" "))),
        ("Pull request", origin.pull.clone()),
        ("Job", origin.job_url.clone()),
    ];
    let known = facts.into_iter().filter_map(|(name, fact)| {
        let fact = fact.filter(|fact| !fact.is_empty())?;
        Some((name.to_owned(), fact))
    });
    Block::Facts(known.collect())
}

/// Links to comparisons with the base and the parents, if those were measured.
fn links(visit: Visit<'_>, id: &str, origin: Option<&Origin>) -> Result<Vec<Link>, Refusal> {
    let mut links = Vec::new();
    let Some(origin) = origin else {
        return Ok(links);
    };
    let is_measured = |id: &str| {
        visit
            .store
            .find(&Reference::Revision(id.to_owned()))
            .is_ok()
    };
    let mut earlier: Vec<(&str, &String)> = Vec::new();
    earlier.extend(origin.base.iter().map(|base| ("its base", base)));
    earlier.extend(origin.parents.iter().map(|parent| ("its parent", parent)));
    for (words, earlier) in earlier {
        if earlier != id && is_measured(earlier) && is_measured(id) {
            links.push(Link::new(
                visit.compare(&format!("@rev:{earlier}"), &format!("@rev:{id}")),
                format!("compare with {words}, {}", short_revision(earlier)),
            ));
        }
    }
    if let Some(branch) = &origin.branch {
        links.push(Link::new(visit.branch(branch), format!("branch {branch}")));
    }
    Ok(links)
}

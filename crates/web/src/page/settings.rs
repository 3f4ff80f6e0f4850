//! `/settings`: projects, tokens, the audit log and the server version.

use super::{Page, Visit};
use crate::refusal::Refusal;
use crate::site::unix_ms;
use speedwell_report::html::Link;
use speedwell_report::{ServedProject, Settings, settings};
use speedwell_results::store::{SessionFilter, Store};

/// Entries of the audit log shown.
const LINES: usize = 200;

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let mut projects = Vec::new();
    for (project, is_public) in visit.site.projects()? {
        projects.push(ServedProject {
            name: project.name.clone(),
            is_public,
            sessions: project.read(|store| Ok(store.count(&SessionFilter::default())?))?,
            bytes: std::fs::metadata(project.path())
                .ok()
                .map(|data| data.len()),
            forge: project.read(|store| Ok(store.forge()?.map(|forge| forge.repository)))?,
        });
    }
    let on_server = Store::server(visit.site.first.path()).is_some();
    let document = settings(&Settings {
        version: env!("CARGO_PKG_VERSION"),
        store: if on_server { "PostgreSQL" } else { "SQLite" },
        now_unix_ms: unix_ms(),
        projects: &projects,
        tokens: &visit.store.tokens()?,
        audit: &visit.store.audit(LINES)?,
    });
    Ok(Page {
        crumbs: vec![Link::new("/settings", "settings")],
        ..Page::of(document)
    })
}

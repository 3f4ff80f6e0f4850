//! Builds `/settings`, which shows projects, tokens, the audit log and the server version.

use crate::dashboard::page::content::{PageContent, PageContext, PageResult};
use crate::dashboard::site::unix_ms;
use speedwell_report::html::PageLink;
use speedwell_report::{ServedProject, ServerSettings, report_settings};
use speedwell_store::{SessionFilter, Store};

/// Maximum number of audit log entries on the page.
const MAX_AUDIT_ENTRIES: usize = 200;

pub fn settings_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    let mut projects = Vec::new();
    for (project, is_public) in context.site.list_projects()? {
        projects.push(ServedProject {
            name: project.name.clone(),
            is_public,
            sessions: project
                .with_reader(|store| Ok(store.count_sessions(&SessionFilter::default())?))?,
            bytes: std::fs::metadata(project.path()).ok().map(|data| data.len()),
            forge: project
                .with_reader(|store| Ok(store.forge_setting()?.map(|forge| forge.repository)))?,
        });
    }
    let on_server = Store::server_address(context.site.first.path()).is_some();
    let document = report_settings(&ServerSettings {
        version: env!("CARGO_PKG_VERSION"),
        store: if on_server { "PostgreSQL" } else { "SQLite" },
        now_unix_ms: unix_ms(),
        projects: &projects,
        tokens: &context.store.list_tokens()?,
        audit: &context.store.latest_audit_entries(MAX_AUDIT_ENTRIES)?,
    });
    Ok(PageContent {
        crumbs: vec![PageLink::new("/settings", "settings")],
        ..PageContent::from_document(document)
    }
    .into())
}

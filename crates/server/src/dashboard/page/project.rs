//! Builds `/`, which lists the projects that the caller may read; `/PROJECT/`, which shows recent
//! sessions and open changes; and `/settings`, which shows projects, tokens, the audit log and the
//! server version.

use crate::dashboard::access::RequiredPermission;
use crate::dashboard::address::encode_segment;
use crate::dashboard::lookups::TrendQuery;
use crate::dashboard::page::changes::open_changes_table;
use crate::dashboard::page::{PageContent, PageContext, PageResult, link_by, link_column};
use crate::dashboard::site::unix_ms;
use crate::http::HttpError;
use speedwell_analysis::history::ProjectHistory;
use speedwell_model::stored::SessionOverview;
use speedwell_report::html::PageLink;
use speedwell_report::{
    self as report, Document, OpenChanges, ProjectLine, ReportBlock, ServedProject, ServerSettings,
    TrendXAxis, format_moment, list_projects, report_settings,
};
use speedwell_store::{SessionFilter, Store};

/// Maximum number of recent sessions listed.
const MAX_SESSIONS: usize = 8;

/// Maximum number of series. With more series, no trends are drawn.
const MAX_SERIES: usize = 60;

pub fn project_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    let newest_sessions = context.store.select_sessions(&SessionFilter::default(), MAX_SESSIONS)?;
    let Some(newest_session) = newest_sessions.first() else {
        let mut document = Document::new("project");
        report::add_first_steps(&mut document);
        return Ok(PageContent::from_document(document));
    };
    let running: Vec<&SessionOverview> = newest_sessions
        .iter()
        .filter(|session| {
            session.state == speedwell_model::SessionState::Running && !session.is_killed
        })
        .collect();
    // If the history cannot be loaded, the page still shows the sessions.
    let history = context.project.load_history(&TrendQuery::default());
    let mut document = Document::new("project");
    let headline = project_headline(newest_session, running.len(), history.as_deref().ok());
    document.push(ReportBlock::Headline(format!("{}: {headline}", context.project.name)));
    // A running session may be killed without a trace in the store, so a page that shows one may go
    // stale although the store has not changed.
    let is_cacheable = running.is_empty();
    if !is_cacheable {
        document.push_heading(2, "Running");
        let owned: Vec<SessionOverview> = running.into_iter().cloned().collect();
        document.append_document(context.list_sessions(&owned));
    }
    match &history {
        Ok(history) => add_history(&mut document, context, history),
        Err(error) => document.push(ReportBlock::Note(format!("No history: {}.", error.message))),
    }
    document.push_heading(2, "Newest sessions");
    document.append_document(context.list_sessions(&newest_sessions));
    Ok(PageContent {
        links: project_links(context)?,
        choice: None,
        is_cacheable: is_cacheable && history.is_ok(),
        ..PageContent::from_document(document)
    })
}

fn project_headline(
    newest: &SessionOverview,
    running: usize,
    history: Option<&ProjectHistory>,
) -> String {
    let summary = match history {
        Some(history) => OpenChanges::from_history(history).sentence(history),
        None => "history unavailable".to_owned(),
    };
    let measuring = match running {
        0 => "",
        _ => "; measurement in progress",
    };
    format!(
        "{summary}{measuring}. Newest session: @{}, {}.",
        newest.number,
        format_moment(newest.started_unix_ms)
    )
}

/// Adds the open changes, then all trends. Trends with urgent changes come first.
fn add_history(document: &mut Document, context: PageContext<'_>, history: &ProjectHistory) {
    let open = OpenChanges::from_history(history);
    if open.known + open.suspected > 0 {
        document.push_heading(2, "Open changes");
        let changes = open_changes_table(context, history);
        let tables = changes.blocks.into_iter();
        document.extend(tables.filter(|block| matches!(block, ReportBlock::Table(_))));
    }
    if history.series.is_empty() || history.series.len() > MAX_SERIES {
        return;
    }
    // The trend page lists the points.
    let trends = report::report_trend(history, TrendXAxis::Revision, 0, &context.report_options());
    let mut galleries = trends.blocks.into_iter();
    if let Some(gallery) = galleries.find(|block| matches!(block, ReportBlock::Gallery(_))) {
        document.push(gallery);
    }
}

fn project_links(context: PageContext<'_>) -> Result<Vec<PageLink>, HttpError> {
    let mut links =
        vec![PageLink::new(context.compare_href("@prev", "@latest"), "compare @prev with @latest")];
    let [branches, _] = context.store.branches_and_tags()?;
    for branch in branches.iter().take(4) {
        let trend = context.page_href(&format!("trend?branch={}", encode_segment(branch)));
        links.push(PageLink::new(context.branch_href(branch), format!("branch {branch}")));
        links.push(PageLink::new(trend, format!("trend of {branch}")));
    }
    Ok(links)
}

const DAY_MS: i64 = 86_400_000;

/// Maximum number of sessions to count per project.
const MAX_COUNTED: usize = 1_000;

pub fn overview_page(context: PageContext<'_>) -> PageResult {
    let projects = context.site.list_projects()?;
    if !projects.iter().any(|(project, _)| context.caller.can_read(&project.name)) {
        context.caller.ensure_permitted(RequiredPermission::Read, None)?;
    }
    context.query.check_names(&[])?;
    let mut summaries = Vec::new();
    for (project, _) in projects {
        if context.caller.can_read(&project.name) {
            summaries.push(project.with_reader(|store| summarize_project(&project.name, store))?);
        }
    }
    // Omit the first project if it is empty. Some servers use its store only to list other
    // projects.
    if summaries.len() > 1
        && summaries[0].name == context.site.first.name
        && summaries[0].newest.is_none()
    {
        summaries.remove(0);
    }
    let mut document = list_projects(&summaries);
    link_column(&mut document, "projects", "project", |name| Some(format!("/{}/", name.as_str()?)));
    link_by(&mut document, "projects", ["newest", "project"], |name| {
        let name = name.as_str()?;
        let summary = summaries.iter().find(|summary| summary.name == name)?;
        Some(format!("/{name}/@{}", summary.newest.as_ref()?.number))
    });
    Ok(PageContent::from_document(document))
}

/// Summarizes a project.
fn summarize_project(name: &str, store: &Store) -> Result<ProjectLine, HttpError> {
    let sessions = store.selected_numbers(&SessionFilter::default(), MAX_COUNTED + 1)?;
    Ok(ProjectLine {
        name: name.to_owned(),
        newest: sessions.first().map(|number| store.find_overview(*number)).transpose()?.flatten(),
        sessions: (sessions.len() <= MAX_COUNTED).then_some(sessions.len()),
        week: sessions_per_day(store)?,
    })
}

/// Returns the number of sessions started on each of the last seven days.
fn sessions_per_day(store: &Store) -> Result<Vec<(String, usize)>, HttpError> {
    let now = unix_ms();
    let today = now - now.rem_euclid(DAY_MS);
    let days: Vec<i64> = (0..7).rev().map(|days_ago| today - days_ago * DAY_MS).collect();
    let started = store.start_times_since(days[0])?;
    let count_day = |day: &i64| {
        let started_then = started.iter().filter(|time| (*day..*day + DAY_MS).contains(*time));
        let moment = format_moment(*day);
        let date = moment.split_whitespace().next().unwrap_or_default();
        (date.to_owned(), started_then.count())
    };
    Ok(days.iter().map(count_day).collect())
}

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
    })
}

//! Builds `/`, which lists the projects that the caller may read; `/PROJECT/`, which shows
//! running measurements, open changes, missing sessions and all series; and `/settings`, which
//! shows projects, tokens, the audit log and the server version.

use crate::dashboard::address::PageFormat;
use crate::dashboard::page::changes::changes_table;
use crate::dashboard::page::trend::link_series;
use crate::dashboard::page::{
    MAX_AGE, PageContent, PageContext, PageResult, link_by, link_column, named_options,
};
use crate::dashboard::site::{HostedProject, unix_ms};
use crate::dashboard::{RequiredPermission, TrendQuery};
use crate::http::HttpError;
use speedwell_analysis::schedule::{find_silent_schedules, schedule_window_start};
use speedwell_report::html::PageLink;
use speedwell_report::{
    self as report, ChangeList, Datum, Document, HomeState, OpenChanges, ProjectLine, ReportFormat,
    ReportRow, RunningSession, ServedProject, ServerSettings, format_moment, list_projects,
    report_settings,
};
use speedwell_store::{SessionFilter, Store};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of running or killed sessions considered.
const MAX_RUNNING: usize = 20;

/// Maximum number of newest sessions in which schedules are searched.
const MAX_ARRIVALS: usize = 2_000;

/// How long the page stays valid while something is measured. A measuring process may die without a
/// trace in the store.
const MAX_AGE_RUNNING: Duration = Duration::from_secs(1);

pub fn project_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&["filter", "branch"])?;
    if context.store.newest_number()? == 0 {
        let mut document = Document::new("project");
        report::add_first_steps(&mut document);
        return Ok(PageContent::from_document(document));
    }
    let branch = context.query.get("branch").map(str::to_owned);
    let is_default_branch = branch.is_none();
    let query = TrendQuery { branch, ..TrendQuery::default() };
    // If the default history cannot be loaded, the page still shows the sessions.
    let (history, problem) = match context.project.load_history(&query) {
        Ok(history) => (history, None),
        Err(error) if is_default_branch => (Arc::default(), Some(error.message)),
        Err(error) => return Err(error),
    };
    let now = unix_ms();
    let (killed, running) = context.store.with_snapshot(|| list_unfinished(context, now))?;
    let machines: HashMap<i64, String> = context.store.machine_titles()?.into_iter().collect();
    let arrivals = context.store.list_arrivals(schedule_window_start(now), MAX_ARRIVALS)?;
    let without_charts =
        PageContext { format: PageFormat::Document(ReportFormat::Json), ..context };
    let mut one_off = context.store.overviews(&report::one_off_sessions(&arrivals, now))?;
    one_off.reverse();
    let settings = || (context.project.lookups.settings)(&[]);
    let results = context.project.results.find_results(context.store, &one_off, &settings);
    let mut document = report::report_home(&HomeState {
        project: &context.project.name,
        now_unix_ms: now,
        running: &running,
        history: &history,
        changes: changes_table(without_charts, &history, ChangeList::Open),
        authors: &context.store.revision_authors(&report::sessions_of_changes(&history))?,
        arrivals: &arrivals,
        killed: &killed,
        silent: &find_silent_schedules(&arrivals, now),
        one_off: &one_off,
        // The sessions are listed even if none can be analyzed.
        results: &results.unwrap_or_default(),
        machines: &machines,
        filter: context.query.get("filter").unwrap_or_default(),
    });
    document.push_notes(problem.iter().map(|message| format!("No history: {message}.")));
    link_tables(&mut document, context);
    let branch_link =
        |branch: &str| PageLink::new(context.branch_href(branch), format!("branch {branch}"));
    // The form filters the list of series.
    let [branches, _] = context.store.branches_and_tags()?;
    let fields = vec![
        context.query_field("filter", "part of a name", Vec::new()),
        context.query_field("branch", "", named_options("default", branches)),
    ];
    Ok(PageContent {
        links: context.query.get("branch").map(branch_link).into_iter().collect(),
        filters: Some(context.filter_form("", fields)),
        is_cacheable: problem.is_none(),
        max_age: Some(if running.is_empty() { MAX_AGE } else { MAX_AGE_RUNNING }),
        ..PageContent::from_document(document)
    })
}

/// Returns the numbers of the killed sessions, and the progress of the running sessions and loads.
fn list_unfinished(
    context: PageContext<'_>,
    now_unix_ms: i64,
) -> anyhow::Result<(Vec<i64>, Vec<RunningSession>)> {
    let elapsed = |since: i64| now_unix_ms.saturating_sub(since).max(0) as u64;
    let (mut killed, mut running) = (Vec::new(), Vec::new());
    for session in context.store.running_sessions(MAX_RUNNING)? {
        if session.is_killed {
            killed.push(session.number);
            continue;
        }
        let saved: usize = context.store.decided_cases(session.number)?.values().sum();
        let planned = (context.project.lookups.planned)(context.store, session.number)?;
        running.push(RunningSession {
            number: Some(session.number),
            done: context.store.finished_slots(session.number)?.len(),
            planned: planned.slots.saturating_sub(saved),
            elapsed_ms: elapsed(session.started_unix_ms),
            planned_ms: None,
            id: session.id,
            command: session.command,
        });
    }
    let loads = context.store.list_live_loads()?;
    running.extend(loads.into_iter().map(|load| RunningSession {
        elapsed_ms: load.progress.elapsed_ms,
        planned_ms: load.progress.planned_ms,
        command: load.progress.command,
        ..RunningSession::default()
    }));
    Ok((killed, running))
}

/// Links the tables to sessions, revisions and trends.
fn link_tables(document: &mut Document, context: PageContext<'_>) {
    link_by(document, "running", ["number", "id"], |id| {
        let session = id.as_str().filter(|id| !id.is_empty())?;
        Some(context.session_href(session))
    });
    link_by(document, "running", ["watch", "id"], |id| {
        Some(match id.as_str()? {
            "" => context.page_href("live"),
            id => format!("{}/live", context.session_href(id)),
        })
    });
    link_by(document, "open_changes", ["subject", "after"], |after| {
        Some(context.revision_href(after.as_str()?))
    });
    link_series(document, context);
    context.link_numbers(document, "one_off", "number");
    document.for_each_table(&mut |table| {
        let session = table.columns.iter().position(|column| column.key == "session");
        let (Some(session), "arrivals") = (session, table.name) else { return };
        for row in &mut table.rows {
            if let ReportRow::Cells(cells) = row {
                let number = cells[session].value.as_ref().and_then(Datum::as_f64);
                let href = number.map_or_else(
                    || context.page_href("sessions"),
                    |number| context.numbered_href(number as i64),
                );
                cells[0].rare_mut().link = Some(href);
            }
        }
    });
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
    let mut readable: Vec<Arc<HostedProject>> = (projects.into_iter())
        .map(|(project, _)| project)
        .filter(|project| context.caller.can_read(&project.name))
        .collect();
    // Omit the first project if it is empty. Some servers use its store only to list other
    // projects.
    if readable.len() > 1
        && readable[0].name == context.site.first.name
        && readable[0].with_reader(|store| Ok(store.newest_number()?))? == 0
    {
        readable.remove(0);
    }
    if let ([only], PageFormat::Page) = (&readable[..], context.format) {
        return Ok(PageContent::redirect_to(format!("/{}/", only.name)));
    }
    let mut summaries = Vec::new();
    for project in &readable {
        summaries.push(summarize_project(project)?);
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
fn summarize_project(project: &HostedProject) -> Result<ProjectLine, HttpError> {
    let history = project.load_history(&TrendQuery::default());
    let open_changes = history.map(|history| {
        let open = OpenChanges::from_history(&history);
        open.known + open.suspected
    });
    project.with_reader(|store| {
        let sessions = store.selected_numbers(&SessionFilter::default(), MAX_COUNTED + 1)?;
        let newest = sessions.first().map(|number| store.find_overview(*number));
        Ok(ProjectLine {
            name: project.name.clone(),
            newest: newest.transpose()?.flatten(),
            open_changes: open_changes.ok(),
            sessions: (sessions.len() <= MAX_COUNTED).then_some(sessions.len()),
            week: sessions_per_day(store)?,
        })
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
            bytes: std::fs::metadata(&project.path).ok().map(|data| data.len()),
            forge: project
                .with_reader(|store| Ok(store.forge_setting()?.map(|forge| forge.repository)))?,
        });
    }
    let on_server = Store::server_address(&context.site.first.path).is_some();
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

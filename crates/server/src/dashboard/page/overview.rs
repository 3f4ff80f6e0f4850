//! Builds `/`, which lists the projects that the caller may read.

use crate::dashboard::access::RequiredPermission;
use crate::dashboard::link::{link_by, link_column};
use crate::dashboard::page::content::{PageContent, PageContext, PageResult};
use crate::dashboard::site::unix_ms;
use crate::http::HttpError;
use speedwell_report::{ProjectLine, format_moment, list_projects};
use speedwell_store::{SessionFilter, Store};

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
    Ok(PageContent::from_document(document).into())
}

/// Summarizes a project.
fn summarize_project(name: &str, store: &Store) -> Result<ProjectLine, HttpError> {
    let sessions = store.selected_numbers(&SessionFilter::default(), MAX_COUNTED + 1)?;
    Ok(ProjectLine {
        name: name.to_owned(),
        newest: match sessions.first() {
            Some(number) => store.find_overview(*number)?,
            None => None,
        },
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

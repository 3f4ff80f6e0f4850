//! `/`: the projects that the caller may read; a local server has one.

use super::{Page, Visit};
use crate::link::{link_by, link_column};
use crate::refusal::Refusal;
use crate::site::unix_ms;
use speedwell_report::{ProjectLine, moment, projects};
use speedwell_results::store::{SessionFilter, Store};

const DAY_MS: i64 = 86_400_000;

/// Sessions are counted up to this number.
const COUNTED: usize = 1_000;

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let mut lines = Vec::new();
    for (project, _) in visit.site.projects()? {
        if visit.caller.may_read(&project.name) {
            lines.push(project.read(|store| line(&project.name, store))?);
        }
    }
    // Omit the first project if it is empty: some servers only use its store to list the others.
    if lines.len() > 1 && lines[0].name == visit.site.first.name && lines[0].newest.is_none() {
        lines.remove(0);
    }
    let mut document = projects(&lines);
    link_column(&mut document, "projects", "project", |name| {
        Some(format!("/{}/", name.as_str()?))
    });
    link_by(&mut document, "projects", ["newest", "project"], |name| {
        let name = name.as_str()?;
        let line = lines.iter().find(|line| line.name == name)?;
        Some(format!("/{name}/@{}", line.newest.as_ref()?.number))
    });
    Ok(Page::of(document))
}

/// Summarizes a project.
fn line(name: &str, store: &Store) -> Result<ProjectLine, Refusal> {
    let sessions = store.selected_numbers(&SessionFilter::default(), COUNTED + 1)?;
    Ok(ProjectLine {
        name: name.to_owned(),
        newest: match sessions.first() {
            Some(number) => store.overview(*number)?,
            None => None,
        },
        sessions: (sessions.len() <= COUNTED).then_some(sessions.len()),
        week: week(store)?,
    })
}

/// Returns the number of sessions started on each of the last seven days.
fn week(store: &Store) -> Result<Vec<(String, usize)>, Refusal> {
    let now = unix_ms();
    let today = now - now.rem_euclid(DAY_MS);
    let days: Vec<i64> = (0..7).rev().map(|back| today - back * DAY_MS).collect();
    let started = store.started_since(days[0])?;
    let of = |day: &i64| {
        let own = started
            .iter()
            .filter(|at| (*day..*day + DAY_MS).contains(*at));
        let name = moment(*day);
        let name = name.split_whitespace().next().unwrap_or_default();
        (name.to_owned(), own.count())
    };
    Ok(days.iter().map(of).collect())
}

//! `/`: all projects. Locally there is one.

use super::{Page, Visit};
use crate::link::link_column;
use crate::refusal::Refusal;
use speedwell_report::{ProjectLine, moment, projects};
use speedwell_results::store::SessionFilter;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_MS: i64 = 86_400_000;

/// More sessions than this are not counted.
const COUNTED: usize = 1_000;

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let store = visit.store;
    let sessions = store.selected_numbers(&SessionFilter::default(), COUNTED + 1)?;
    let line = ProjectLine {
        name: visit.site.project.clone(),
        newest: match sessions.first() {
            Some(number) => store.overview(*number)?,
            None => None,
        },
        sessions: (sessions.len() <= COUNTED).then_some(sessions.len()),
        week: week(visit)?,
    };
    let mut document = projects(&[line]);
    link_column(&mut document, "projects", "project", |_| {
        Some(visit.href(""))
    });
    link_column(&mut document, "projects", "newest", |number| {
        Some(visit.numbered(number.as_i64()?))
    });
    Ok(Page::of(document))
}

/// How many sessions began on each of the last seven days.
fn week(visit: Visit<'_>) -> Result<Vec<(String, usize)>, Refusal> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_millis() as i64);
    let today = now - now.rem_euclid(DAY_MS);
    let days: Vec<i64> = (0..7).rev().map(|back| today - back * DAY_MS).collect();
    let started = visit.store.started_since(days[0])?;
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

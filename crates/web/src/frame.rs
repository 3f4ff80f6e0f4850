//! Layout around every page: navigation, breadcrumbs, formats and account.

use crate::access::{Caller, Need};
use crate::address::{Format, Place};
use crate::page::{Page, charts};
use crate::project::Project;
use crate::query::Query;
use crate::site::Site;
use speedwell_report::html::{
    Account, Charts, EARLY_SCRIPT, Link, SERVED_SCRIPT, SERVED_STYLE, Served,
};

/// Files that every page needs, by name: style, early script, script.
pub fn assets() -> [(&'static str, &'static str); 3] {
    [
        ("page.css", SERVED_STYLE),
        ("early.js", EARLY_SCRIPT),
        ("page.js", SERVED_SCRIPT),
    ]
}

/// Pages in the navigation bar, with their labels.
const PAGES: [(&str, &str); 8] = [
    ("sessions", "Sessions"),
    ("benchmarks", "Benchmarks"),
    ("trend", "Trend"),
    ("compare", "Compare"),
    ("alerts", "Changes"),
    ("machines", "Machines"),
    ("calibration", "Calibration"),
    ("live", "Live"),
];

/// Context of a page: its project and the caller.
pub struct Around<'a> {
    pub site: &'a Site,
    pub project: &'a Project,
    pub caller: &'a Caller,
}

/// Builds the layout of a page; `path` is its address without an ending.
pub fn around(
    around: &Around<'_>,
    place: Option<&Place>,
    page: &Page,
    path: &str,
    query: &Query,
) -> Served {
    let Around {
        site,
        project,
        caller,
    } = around;
    let project = &project.name;
    let is_of_project = caller.may_read(project)
        && !matches!(place, Some(Place::Settings))
        && (place != Some(&Place::Overview) || site.is_local());
    let navigation = navigation(around, place, is_of_project);
    let mut breadcrumbs = vec![Link::new("/", "projects")];
    if is_of_project && place != Some(&Place::Overview) {
        breadcrumbs.push(Link::new(format!("/{project}/"), project));
    }
    breadcrumbs.extend(page.crumbs.iter().cloned());
    if let Some(last) = breadcrumbs.last_mut() {
        last.is_here = true;
    }
    let address = |ending: &str| {
        let path = match path.strip_suffix('/') {
            Some(folder) => format!("{folder}/index"),
            None => path.to_owned(),
        };
        format!("{path}.{ending}{}", query.text())
    };
    let mut formats: Vec<Link> = Format::DOCUMENTS
        .iter()
        .filter(|(ending, _)| *ending != "json" && page.status.is_success())
        .map(|(ending, _)| Link::new(address(ending), name_of(ending)))
        .collect();
    if !page.sessions.is_empty() {
        formats.push(Link::new(address("jsonl"), "JSON Lines with every sample"));
    }
    Served {
        navigation,
        breadcrumbs,
        assets: site.assets.clone(),
        data_link: address("json"),
        formats,
        search: if is_of_project {
            format!("/{project}/search")
        } else {
            String::new()
        },
        account: account(site, caller, place),
        changes: page.changes.clone(),
        filters: page.filters.clone(),
        links: page.links.clone(),
        choice: page.choice.clone(),
        events: page.events.clone(),
        is_reloaded: query.get("every").is_some(),
        charts: match &page.charts {
            Charts::Here => Charts::Apart(charts::beginning(query)),
            part => part.clone(),
        },
    }
}

/// Builds the navigation bar; settings are included for administrators only.
fn navigation(around: &Around<'_>, place: Option<&Place>, is_of_project: bool) -> Vec<Link> {
    let project = &around.project.name;
    let mut navigation = vec![Link {
        is_here: place == Some(&Place::Overview),
        ..Link::new("/", "Speedwell")
    }];
    let here = place.and_then(part_of);
    if is_of_project {
        navigation.extend(PAGES.iter().map(|(page, words)| Link {
            is_here: here == Some(page),
            ..Link::new(format!("/{project}/{page}"), *words)
        }));
    }
    if around.caller.may(Need::Admin, None) {
        navigation.push(Link {
            is_here: place == Some(&Place::Settings),
            ..Link::new("/settings", "Settings")
        });
    }
    navigation
}

/// Returns the login or logout link, where a login makes a difference.
fn account(site: &Site, caller: &Caller, place: Option<&Place>) -> Option<Account> {
    if caller.is_known() {
        return Some(Account::In {
            name: caller.name.clone(),
            action: "/logout".into(),
        });
    }
    let is_offered = site.access.is_asked_for() && place.is_some();
    is_offered.then(|| Account::Out(Link::new("/login", "log in")))
}

fn name_of(ending: &str) -> &'static str {
    match ending {
        "md" => "Markdown",
        "csv" => "CSV",
        "html" => "one HTML file",
        _ => "text",
    }
}

/// Returns the entry of the navigation bar that a page belongs to.
fn part_of(place: &Place) -> Option<&'static str> {
    Some(match place {
        Place::Overview | Place::Project | Place::Search | Place::Settings => return None,
        Place::Sessions
        | Place::Session(_)
        | Place::Reference(_)
        | Place::Revision(_)
        | Place::Branch(_)
        | Place::Pull(_) => "sessions",
        Place::Benchmarks | Place::Benchmark(_) => "benchmarks",
        Place::Trend => "trend",
        Place::Compare => "compare",
        Place::Machines | Place::Machine(_) => "machines",
        Place::Calibration => "calibration",
        Place::Alerts => "alerts",
        Place::Live | Place::SessionLive(_) | Place::Events(_) => "live",
    })
}

//! Layout around every page: navigation, breadcrumbs, formats and account.

use crate::access::{CallerIdentity, RequiredPermission};
use crate::address::{PageFormat, PageKind};
use crate::page::{PageContent, charts};
use crate::project::HostedProject;
use crate::query::PageQuery;
use crate::site::SiteState;
use speedwell_report::html::{
    ChartsLocation, EARLY_SCRIPT, LoginState, PageLink, SERVED_SCRIPT, SERVED_STYLE, ServedFrame,
};

/// Files that every page needs, by name: style, early script, script.
pub fn asset_files() -> [(&'static str, &'static str); 3] {
    [
        ("page.css", SERVED_STYLE),
        ("early.js", EARLY_SCRIPT),
        ("page.js", SERVED_SCRIPT),
    ]
}

/// Pages in the navigation bar, with their labels.
const NAVIGATION_PAGES: [(&str, &str); 8] = [
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
pub struct LayoutContext<'a> {
    pub site: &'a SiteState,
    pub project: &'a HostedProject,
    pub caller: &'a CallerIdentity,
}

/// Builds the layout of a page; `path` is the path of its URL without the extension.
pub fn build_layout(
    around: &LayoutContext<'_>,
    place: Option<&PageKind>,
    page: &PageContent,
    path: &str,
    query: &PageQuery,
) -> ServedFrame {
    let LayoutContext {
        site,
        project,
        caller,
    } = around;
    let project = &project.name;
    let is_of_project = caller.can_read(project)
        && !matches!(place, Some(PageKind::Settings))
        && (place != Some(&PageKind::Overview) || site.has_one_project());
    let navigation = build_navigation(around, place, is_of_project);
    let mut breadcrumbs = vec![PageLink::new("/", "projects")];
    if is_of_project && place != Some(&PageKind::Overview) {
        breadcrumbs.push(PageLink::new(format!("/{project}/"), project));
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
        format!("{path}.{ending}{}", query.to_query_string())
    };
    let mut formats: Vec<PageLink> = PageFormat::DOCUMENTS
        .iter()
        .filter(|(ending, _)| *ending != "json" && page.status.is_success())
        .map(|(ending, _)| PageLink::new(address(ending), format_label(ending)))
        .collect();
    if !page.sessions.is_empty() {
        formats.push(PageLink::new(
            address("jsonl"),
            "JSON Lines with every sample",
        ));
    }
    ServedFrame {
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
        account: account_link(site, caller, place),
        changes: page.changes.clone(),
        filters: page.filters.clone(),
        links: page.links.clone(),
        choice: page.choice.clone(),
        events: page.events.clone(),
        is_reloaded: query.get("every").is_some(),
        charts: match &page.charts {
            ChartsLocation::Here => ChartsLocation::Apart(charts::part_link_prefix(query)),
            part => part.clone(),
        },
    }
}

/// Builds the navigation bar; settings are included for administrators only.
fn build_navigation(
    around: &LayoutContext<'_>,
    place: Option<&PageKind>,
    is_of_project: bool,
) -> Vec<PageLink> {
    let project = &around.project.name;
    let mut navigation = vec![PageLink {
        is_here: place == Some(&PageKind::Overview),
        ..PageLink::new("/", "Speedwell")
    }];
    let here = place.and_then(navigation_entry);
    if is_of_project {
        navigation.extend(NAVIGATION_PAGES.iter().map(|(page, words)| PageLink {
            is_here: here == Some(page),
            ..PageLink::new(format!("/{project}/{page}"), *words)
        }));
    }
    if around.caller.is_permitted(RequiredPermission::Admin, None) {
        navigation.push(PageLink {
            is_here: place == Some(&PageKind::Settings),
            ..PageLink::new("/settings", "Settings")
        });
    }
    navigation
}

/// Returns the login or logout link, where a login makes a difference.
fn account_link(
    site: &SiteState,
    caller: &CallerIdentity,
    place: Option<&PageKind>,
) -> Option<LoginState> {
    if caller.is_authenticated() {
        return Some(LoginState::In {
            name: caller.name.clone(),
            action: "/logout".into(),
        });
    }
    let is_offered = site.access.offers_login() && place.is_some();
    is_offered.then(|| LoginState::Out(PageLink::new("/login", "log in")))
}

fn format_label(ending: &str) -> &'static str {
    match ending {
        "md" => "Markdown",
        "csv" => "CSV",
        "html" => "standalone HTML",
        _ => "text",
    }
}

/// Returns the entry of the navigation bar that a page belongs to.
fn navigation_entry(place: &PageKind) -> Option<&'static str> {
    Some(match place {
        PageKind::Overview | PageKind::Project | PageKind::Search | PageKind::Settings => {
            return None;
        }
        PageKind::Sessions
        | PageKind::Session(_)
        | PageKind::Reference(_)
        | PageKind::Revision(_)
        | PageKind::Branch(_)
        | PageKind::Pull(_) => "sessions",
        PageKind::Benchmarks | PageKind::Benchmark(_) => "benchmarks",
        PageKind::Trend => "trend",
        PageKind::Compare => "compare",
        PageKind::Machines | PageKind::Machine(_) => "machines",
        PageKind::Calibration => "calibration",
        PageKind::Alerts => "alerts",
        PageKind::Live | PageKind::SessionLive(_) | PageKind::Events(_) => "live",
    })
}

//! Builds the layout around every page: navigation, breadcrumbs, links to other formats, and login.

use crate::dashboard::access::{CallerIdentity, RequiredPermission};
use crate::dashboard::address::{PageFormat, PageKind};
use crate::dashboard::page::{PageContent, charts};
use crate::dashboard::project::HostedProject;
use crate::dashboard::query::PageQuery;
use crate::dashboard::site::SiteState;
use speedwell_report::html::{
    ChartsLocation, EARLY_SCRIPT, LoginState, PageLink, SERVED_SCRIPT, SERVED_STYLE, ServedFrame,
};

/// Names and contents of the files that every page needs: style, early script, script.
pub fn asset_files() -> [(&'static str, &'static str); 3] {
    [("page.css", SERVED_STYLE), ("early.js", EARLY_SCRIPT), ("page.js", SERVED_SCRIPT)]
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
    context: &LayoutContext<'_>,
    page_kind: Option<&PageKind>,
    page: &PageContent,
    path: &str,
    query: &PageQuery,
) -> ServedFrame {
    let LayoutContext { site, project, caller } = context;
    let project = &project.name;
    let shows_project = caller.can_read(project)
        && !matches!(page_kind, Some(PageKind::Settings))
        && (page_kind != Some(&PageKind::Overview) || site.has_one_project());
    let navigation = build_navigation(context, page_kind, shows_project);
    let mut breadcrumbs = vec![PageLink::new("/", "projects")];
    if shows_project && page_kind != Some(&PageKind::Overview) {
        breadcrumbs.push(PageLink::new(format!("/{project}/"), project));
    }
    breadcrumbs.extend(page.crumbs.iter().cloned());
    if let Some(last_crumb) = breadcrumbs.last_mut() {
        last_crumb.is_here = true;
    }
    let address = |extension: &str| {
        let path = match path.strip_suffix('/') {
            Some(folder) => format!("{folder}/index"),
            None => path.to_owned(),
        };
        format!("{path}.{extension}{}", query.to_query_string())
    };
    let mut formats: Vec<PageLink> = PageFormat::DOCUMENTS
        .iter()
        .filter(|(extension, _)| *extension != "json" && page.status.is_success())
        .map(|(extension, _)| PageLink::new(address(extension), format_label(extension)))
        .collect();
    if !page.sessions.is_empty() {
        formats.push(PageLink::new(address("jsonl"), "JSON Lines with every sample"));
    }
    ServedFrame {
        navigation,
        breadcrumbs,
        assets: site.assets.clone(),
        data_link: address("json"),
        formats,
        search: if shows_project { format!("/{project}/search") } else { String::new() },
        account: account_link(site, caller, page_kind),
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
    context: &LayoutContext<'_>,
    page_kind: Option<&PageKind>,
    shows_project: bool,
) -> Vec<PageLink> {
    let project = &context.project.name;
    let mut navigation = vec![PageLink {
        is_here: page_kind == Some(&PageKind::Overview),
        ..PageLink::new("/", "Speedwell")
    }];
    let current_entry = page_kind.and_then(navigation_entry);
    if shows_project {
        navigation.extend(NAVIGATION_PAGES.iter().map(|(page, label)| PageLink {
            is_here: current_entry == Some(page),
            ..PageLink::new(format!("/{project}/{page}"), *label)
        }));
    }
    if context.caller.is_permitted(RequiredPermission::Admin, None) {
        navigation.push(PageLink {
            is_here: page_kind == Some(&PageKind::Settings),
            ..PageLink::new("/settings", "Settings")
        });
    }
    navigation
}

/// Returns the link to log in or out, or `None` if no login is offered.
fn account_link(
    site: &SiteState,
    caller: &CallerIdentity,
    page_kind: Option<&PageKind>,
) -> Option<LoginState> {
    if caller.is_authenticated() {
        return Some(LoginState::In { name: caller.name.clone(), action: "/logout".into() });
    }
    let is_offered = site.access.offers_login() && page_kind.is_some();
    is_offered.then(|| LoginState::Out(PageLink::new("/login", "log in")))
}

fn format_label(extension: &str) -> &'static str {
    match extension {
        "md" => "Markdown",
        "csv" => "CSV",
        "html" => "standalone HTML",
        _ => "text",
    }
}

/// Returns the navigation entry to highlight for a page.
fn navigation_entry(page_kind: &PageKind) -> Option<&'static str> {
    Some(match page_kind {
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

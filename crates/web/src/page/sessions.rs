//! `/PROJECT/sessions`: filtered list of sessions, in pages.

use super::{PageContent, PageContext};
use crate::refusal::PageError;
use speedwell_report::html::{FormField, PageForm, PageLink};
use speedwell_report::{Document, ReportBlock, add_first_steps};
use speedwell_results::store::SessionFilter;

/// Sessions per page.
const SESSIONS_PER_PAGE: usize = 50;

/// Sessions are counted up to this number.
const MAX_COUNTED: usize = 1_000;

/// Query keys.
const QUERY_KEYS: [&str; 9] = [
    "branch",
    "revision",
    "machine",
    "tag",
    "state",
    "variant",
    "benchmark",
    "pull",
    "before",
];

pub fn sessions_page(visit: PageContext<'_>) -> Result<PageContent, PageError> {
    visit.query.check_names(&QUERY_KEYS)?;
    let filter = session_filter(visit)?;
    let mut found = visit
        .store
        .select_sessions(&filter, SESSIONS_PER_PAGE + 1)?;
    let is_more = found.len() > SESSIONS_PER_PAGE;
    found.truncate(SESSIONS_PER_PAGE);
    let mut document = Document::new("sessions");
    let is_filtered = QUERY_KEYS
        .iter()
        .any(|name| visit.query.get(name).is_some());
    match (found.is_empty(), is_filtered) {
        (true, true) => document.push(ReportBlock::Headline("no sessions match".into())),
        (true, false) => add_first_steps(&mut document),
        (false, _) => document.push(ReportBlock::Headline(count_headline(visit, &filter)?)),
    }
    if !found.is_empty() {
        document.append_document(visit.list_sessions(&found));
    }
    let mut links = Vec::new();
    if visit.query.get("before").is_some() {
        let newest = visit.page_href(&format!(
            "sessions{}",
            visit.query.with_value("before", None)
        ));
        links.push(PageLink::new(newest, "newest sessions"));
    }
    if let Some(last) = found.last().filter(|_| is_more) {
        let before = last.number.to_string();
        let query = visit.query.with_value("before", Some(&before));
        links.push(PageLink::new(
            visit.page_href(&format!("sessions{query}")),
            "earlier sessions",
        ));
    }
    Ok(PageContent {
        crumbs: vec![PageLink::new(visit.page_href("sessions"), "sessions")],
        links,
        choice: (found.len() > 1).then(|| visit.row_choice()).flatten(),
        filters: Some(filter_form(visit)?),
        sessions: found.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    })
}

/// Builds the filter from the query.
fn session_filter(visit: PageContext<'_>) -> Result<SessionFilter, PageError> {
    let text = |name| visit.query.get(name).map(str::to_owned);
    Ok(SessionFilter {
        before: visit.query.get_number("before")?,
        branch: text("branch"),
        revision: text("revision"),
        state: text("state"),
        tag: text("tag").map(|tag| tag.trim_start_matches('@').to_owned()),
        machine: visit.query.get_number("machine")?,
        benchmark: text("benchmark"),
        variant: text("variant"),
        pull: text("pull"),
        ..SessionFilter::default()
    })
}

fn count_headline(visit: PageContext<'_>, filter: &SessionFilter) -> Result<String, PageError> {
    let all_pages = SessionFilter {
        before: None,
        ..filter.clone()
    };
    let numbers = visit.store.selected_numbers(&all_pages, MAX_COUNTED + 1)?;
    Ok(match numbers.len() {
        1 => "1 session".to_owned(),
        count if count > MAX_COUNTED => "more than 1,000 sessions".to_owned(),
        count => format!("{count} sessions"),
    })
}

fn filter_form(visit: PageContext<'_>) -> Result<PageForm, PageError> {
    let [branches, tags] = visit.store.branches_and_tags()?;
    let machines = visit
        .store
        .machine_titles()?
        .into_iter()
        .map(|(number, title)| (number.to_string(), title));
    let any = || vec![(String::new(), "any".to_owned())];
    let named = |names: Vec<String>| {
        let name_options = names.into_iter().map(|name| (name.clone(), name));
        any().into_iter().chain(name_options).collect::<Vec<_>>()
    };
    let states = ["complete", "running", "interrupted", "imported"].map(str::to_owned);
    let value = |name| visit.query.get(name).unwrap_or_default().to_owned();
    let field = |name: &'static str, options: Vec<(String, String)>| FormField {
        name,
        label: name.to_owned(),
        value: value(name),
        placeholder: "any".into(),
        options,
        ..FormField::default()
    };
    let fields = vec![
        field("branch", named(branches)),
        field("revision", Vec::new()),
        field("machine", any().into_iter().chain(machines).collect()),
        field("tag", named(tags)),
        field("state", named(states.to_vec())),
        field("variant", Vec::new()),
        field("benchmark", Vec::new()),
        field("pull", Vec::new()),
    ];
    let set = QUERY_KEYS
        .iter()
        .filter(|name| **name != "before")
        .filter_map(|name| {
            let value = visit.query.get(name)?;
            let query_without = visit.query.with_value(name, None);
            let href = visit.page_href(&format!("sessions{query_without}"));
            Some(PageLink::new(href, format!("{name}: {value}")))
        });
    Ok(PageForm {
        action: visit.page_href("sessions"),
        title: "Filter".into(),
        button: "Filter".into(),
        set: set.collect(),
        fields,
    })
}

//! Builds `/PROJECT/sessions`, the filtered list of sessions.

use crate::dashboard::page::content::{PageContent, PageContext, PageResult};
use crate::http::HttpError;
use speedwell_report::html::{FormField, PageForm, PageLink};
use speedwell_report::{Document, ReportBlock, add_first_steps};
use speedwell_store::SessionFilter;

/// Sessions per page.
const SESSIONS_PER_PAGE: usize = 50;

/// Maximum number of sessions to count.
const MAX_COUNTED: usize = 1_000;

/// Query keys.
const QUERY_KEYS: [&str; 9] =
    ["branch", "revision", "machine", "tag", "state", "variant", "benchmark", "pull", "before"];

pub fn sessions_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&QUERY_KEYS)?;
    let filter = session_filter(context)?;
    let mut sessions = context.store.select_sessions(&filter, SESSIONS_PER_PAGE + 1)?;
    let has_more = sessions.len() > SESSIONS_PER_PAGE;
    sessions.truncate(SESSIONS_PER_PAGE);
    let mut document = Document::new("sessions");
    let is_filtered = QUERY_KEYS.iter().any(|name| context.query.get(name).is_some());
    match (sessions.is_empty(), is_filtered) {
        (true, true) => document.push(ReportBlock::Headline("no sessions match".into())),
        (true, false) => add_first_steps(&mut document),
        (false, _) => document.push(ReportBlock::Headline(count_headline(context, &filter)?)),
    }
    if !sessions.is_empty() {
        document.append_document(context.list_sessions(&sessions));
    }
    let mut links = Vec::new();
    if context.query.get("before").is_some() {
        let newest =
            context.page_href(&format!("sessions{}", context.query.with_value("before", None)));
        links.push(PageLink::new(newest, "newest sessions"));
    }
    if let Some(last) = sessions.last().filter(|_| has_more) {
        let before = last.number.to_string();
        let query = context.query.with_value("before", Some(&before));
        links.push(PageLink::new(
            context.page_href(&format!("sessions{query}")),
            "earlier sessions",
        ));
    }
    Ok(PageContent {
        crumbs: vec![PageLink::new(context.page_href("sessions"), "sessions")],
        links,
        choice: (sessions.len() > 1).then(|| context.row_choice()).flatten(),
        filters: Some(filter_form(context)?),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    }
    .into())
}

/// Builds the filter from the query.
fn session_filter(context: PageContext<'_>) -> Result<SessionFilter, HttpError> {
    let value_of = |name| context.query.get(name).map(str::to_owned);
    Ok(SessionFilter {
        before: context.query.get_number("before")?,
        branch: value_of("branch"),
        revision: value_of("revision"),
        state: value_of("state"),
        tag: value_of("tag").map(|tag| tag.trim_start_matches('@').to_owned()),
        machine: context.query.get_number("machine")?,
        benchmark: value_of("benchmark"),
        variant: value_of("variant"),
        pull: value_of("pull"),
        ..SessionFilter::default()
    })
}

fn count_headline(context: PageContext<'_>, filter: &SessionFilter) -> Result<String, HttpError> {
    let all_pages = SessionFilter { before: None, ..filter.clone() };
    let numbers = context.store.selected_numbers(&all_pages, MAX_COUNTED + 1)?;
    Ok(match numbers.len() {
        1 => "1 session".to_owned(),
        count if count > MAX_COUNTED => "more than 1,000 sessions".to_owned(),
        count => format!("{count} sessions"),
    })
}

fn filter_form(context: PageContext<'_>) -> Result<PageForm, HttpError> {
    let [branches, tags] = context.store.branches_and_tags()?;
    let machines = context
        .store
        .machine_titles()?
        .into_iter()
        .map(|(number, title)| (number.to_string(), title));
    let any = || vec![(String::new(), "any".to_owned())];
    let options_of = |names: Vec<String>| {
        let name_options = names.into_iter().map(|name| (name.clone(), name));
        any().into_iter().chain(name_options).collect::<Vec<_>>()
    };
    let states = ["complete", "running", "interrupted", "imported"].map(str::to_owned);
    let value = |name| context.query.get(name).unwrap_or_default().to_owned();
    let field = |name: &'static str, options: Vec<(String, String)>| FormField {
        name,
        label: name.to_owned(),
        value: value(name),
        placeholder: "any".into(),
        options,
        ..FormField::default()
    };
    let fields = vec![
        field("branch", options_of(branches)),
        field("revision", Vec::new()),
        field("machine", any().into_iter().chain(machines).collect()),
        field("tag", options_of(tags)),
        field("state", options_of(states.to_vec())),
        field("variant", Vec::new()),
        field("benchmark", Vec::new()),
        field("pull", Vec::new()),
    ];
    let set = QUERY_KEYS.iter().filter(|name| **name != "before").filter_map(|name| {
        let value = context.query.get(name)?;
        let query_without = context.query.with_value(name, None);
        let href = context.page_href(&format!("sessions{query_without}"));
        Some(PageLink::new(href, format!("{name}: {value}")))
    });
    Ok(PageForm {
        action: context.page_href("sessions"),
        title: "Filter".into(),
        button: "Filter".into(),
        set: set.collect(),
        fields,
    })
}

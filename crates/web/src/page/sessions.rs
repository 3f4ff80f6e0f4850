//! `/PROJECT/sessions`: filtered list of sessions, in pages.

use super::{Page, Visit};
use crate::refusal::Refusal;
use speedwell_report::html::{Field, Form, Link};
use speedwell_report::{Block, Document, nothing_measured};
use speedwell_results::store::SessionFilter;

/// Sessions per page.
const ROWS: usize = 50;

/// Sessions are counted up to this number.
const COUNTED: usize = 1_000;

/// Query keys.
const NAMES: [&str; 9] = [
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

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&NAMES)?;
    let filter = filter(visit)?;
    let mut found = visit.store.selected(&filter, ROWS + 1)?;
    let is_more = found.len() > ROWS;
    found.truncate(ROWS);
    let mut document = Document::new("sessions");
    let is_filtered = NAMES.iter().any(|name| visit.query.get(name).is_some());
    match (found.is_empty(), is_filtered) {
        (true, true) => document.push(Block::Headline("no session matches".into())),
        (true, false) => nothing_measured(&mut document),
        (false, _) => document.push(Block::Headline(headline(visit, &filter)?)),
    }
    if !found.is_empty() {
        document.append(visit.list(&found));
    }
    let mut links = Vec::new();
    if visit.query.get("before").is_some() {
        let newest = visit.href(&format!("sessions{}", visit.query.with("before", None)));
        links.push(Link::new(newest, "newest sessions"));
    }
    if let Some(last) = found.last().filter(|_| is_more) {
        let before = last.number.to_string();
        let query = visit.query.with("before", Some(&before));
        links.push(Link::new(
            visit.href(&format!("sessions{query}")),
            "earlier sessions",
        ));
    }
    Ok(Page {
        crumbs: vec![Link::new(visit.href("sessions"), "sessions")],
        links,
        choice: (found.len() > 1).then(|| visit.choice()).flatten(),
        filters: Some(form(visit)?),
        sessions: found.iter().map(|session| session.number).collect(),
        ..Page::of(document)
    })
}

/// Builds the filter from the query.
fn filter(visit: Visit<'_>) -> Result<SessionFilter, Refusal> {
    let text = |name| visit.query.get(name).map(str::to_owned);
    Ok(SessionFilter {
        before: visit.query.number("before")?,
        branch: text("branch"),
        revision: text("revision"),
        state: text("state"),
        tag: text("tag").map(|tag| tag.trim_start_matches('@').to_owned()),
        machine: visit.query.number("machine")?,
        benchmark: text("benchmark"),
        variant: text("variant"),
        pull: text("pull"),
        ..SessionFilter::default()
    })
}

fn headline(visit: Visit<'_>, filter: &SessionFilter) -> Result<String, Refusal> {
    let all = SessionFilter {
        before: None,
        ..filter.clone()
    };
    let all = visit.store.selected_numbers(&all, COUNTED + 1)?.len();
    Ok(match all {
        1 => "1 session".to_owned(),
        _ if all > COUNTED => "more than 1,000 sessions".to_owned(),
        _ => format!("{all} sessions"),
    })
}

fn form(visit: Visit<'_>) -> Result<Form, Refusal> {
    let [branches, tags] = visit.store.branches_and_tags()?;
    let machines = visit.store.machine_titles()?;
    let any = || vec![(String::new(), "any".to_owned())];
    let named = |names: Vec<String>| {
        let names = names.into_iter().map(|name| (name.clone(), name));
        any().into_iter().chain(names).collect::<Vec<_>>()
    };
    let machines = (machines.into_iter()).map(|(number, title)| (number.to_string(), title));
    let states = ["complete", "running", "interrupted", "imported"].map(str::to_owned);
    let value = |name| visit.query.get(name).unwrap_or_default().to_owned();
    let field = |name: &'static str, options: Vec<(String, String)>| Field {
        name,
        label: name.to_owned(),
        value: value(name),
        placeholder: "any".into(),
        options,
        ..Field::default()
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
    let set = NAMES.iter().filter(|name| **name != "before");
    let set = set.filter_map(|name| {
        let value = visit.query.get(name)?;
        let without = visit.href(&format!("sessions{}", visit.query.with(name, None)));
        Some(Link::new(without, format!("{name}: {value}")))
    });
    Ok(Form {
        action: visit.href("sessions"),
        title: "Filter".into(),
        button: "Filter".into(),
        set: set.collect(),
        fields,
    })
}

//! Builds `/PROJECT/alerts`, which corresponds to `speedwell history changes --open` and has a form
//! for triaging changes. Every triage is recorded in the audit log.

use crate::dashboard::access::RequiredPermission;
use crate::dashboard::address::encode_segment;
use crate::dashboard::lookups::TrendQuery;
use crate::dashboard::page::{
    PageContent, PageContext, PageResult, link_by, link_column, named_options, redirect_to,
};
use crate::dashboard::site::{RequestContext, unix_ms};
use crate::http::HttpError;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use speedwell_analysis::history::ProjectHistory;
use speedwell_model::{ChangeTriage, RecordedChange, check_note};
use speedwell_report::html::{FormField, PageForm, PageLink};
use speedwell_report::{self as report, Document};
use speedwell_store::Store;

pub fn alerts_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&["branch"])?;
    let trend_query = TrendQuery {
        branch: context.query.get("branch").map(str::to_owned),
        ..TrendQuery::default()
    };
    let history = context.project.load_history(&trend_query)?;
    let [branches, _] = context.store.branches_and_tags()?;
    let filters = PageForm {
        action: context.page_href("alerts"),
        title: "Filter".into(),
        button: "Show".into(),
        fields: vec![context.query_field("branch", "", named_options("default", branches))],
        set: Vec::new(),
    };
    let own_href = context.page_href(&format!("alerts{}", context.query.to_query_string()));
    let candidates = triage_candidates(&history);
    let may_triage =
        context.caller.is_permitted(RequiredPermission::Triage, Some(&context.project.name));
    let changes = (may_triage && !candidates.is_empty()).then(|| {
        triage_form(context.page_href("alerts"), candidates, trend_query.branch.as_deref())
    });
    Ok(PageContent {
        changes: changes.into_iter().collect(),
        crumbs: vec![PageLink::new(own_href, "open changes")],
        filters: Some(filters),
        is_cacheable: true,
        ..PageContent::from_document(open_changes_table(context, &history))
    })
}

/// Lists the numbers and descriptions of changes. Open changes come before triaged changes.
fn triage_candidates(history: &ProjectHistory) -> Vec<(String, String)> {
    let changes_by_series = history.series.iter().flat_map(|series| {
        let changes = series.trend.changes.iter();
        changes.map(move |change| (series, change))
    });
    let (open, closed): (Vec<_>, Vec<_>) =
        changes_by_series.partition(|(_, change)| change.is_open());
    let triaged = closed.into_iter().filter(|(_, change)| change.triage != ChangeTriage::Open);
    let labelled = open.into_iter().chain(triaged).map(|(series, change)| {
        let number = change.number.to_string();
        let mut label = format!("{number}: {}", series.key.case);
        if change.triage != ChangeTriage::Open {
            label += &format!(" ({})", change.triage);
        }
        (number, label)
    });
    labelled.collect()
}

/// Builds the form for triaging and reopening changes. `changes` holds the number and the
/// description of each change.
fn triage_form(action: String, changes: Vec<(String, String)>, branch: Option<&str>) -> PageForm {
    let options = [
        ("accepted", "accepted: intended, or worth its cost"),
        ("wrong", "wrong: a false alarm"),
        ("fixed", "fixed: reverted or repaired"),
        ("open", "open: not triaged yet, or triage withdrawn"),
    ]
    .map(|(value, label)| (value.to_owned(), label.to_owned()));
    let field = |name: &'static str, options| FormField {
        name,
        label: name.to_owned(),
        options,
        ..FormField::default()
    };
    let note = FormField { placeholder: "reason".into(), ..field("note", Vec::new()) };
    let mut fields = vec![field("change", changes), field("triage", options.into()), note];
    fields
        .extend(branch.map(|branch| field("branch", vec![(branch.to_owned(), branch.to_owned())])));
    PageForm {
        action,
        title: "Triage a change".into(),
        button: "Save".into(),
        fields,
        set: Vec::new(),
    }
}

/// Triages a change as requested in the form, and redirects to the page.
///
/// # Errors
/// Fails if the caller lacks the permission, the form is invalid, or there is no such change.
pub fn triage_change(context: &RequestContext) -> Result<Response<Body>, HttpError> {
    let form = context.parse_form()?;
    form.check_names(&["change", "triage", "note", "branch"])?;
    let triage_name = form.get("triage").unwrap_or_default();
    let subject = format!("change {}: {}", form.get("change").unwrap_or_default(), triage_name);
    let permission = RequiredPermission::Triage;
    if let Err(error) = context.caller.ensure_permitted(permission, context.project.as_deref()) {
        context.record_action("triage", &subject, "refused");
        return Err(error);
    }
    let number =
        form.get_number("change")?.ok_or_else(|| HttpError::bad_request("no change selected"))?;
    let triage =
        [ChangeTriage::Open, ChangeTriage::Accepted, ChangeTriage::Wrong, ChangeTriage::Fixed]
            .into_iter()
            .find(|triage| triage.to_string() == triage_name)
            .ok_or_else(|| {
                HttpError::bad_request(format!("unknown triage '{triage_name}'"))
                    .with_hint("use open, accepted, wrong or fixed")
            })?;
    check_note(form.get("note").unwrap_or_default())
        .map_err(|error| HttpError::from_error(StatusCode::BAD_REQUEST, &error))?;
    let project = context.find_project()?;
    let mut store = Store::open(project.path())?;
    let stored = store
        .find_change(number)
        .map_err(|error| HttpError::from_error(StatusCode::NOT_FOUND, &error))?;
    store.store_triage(&RecordedChange {
        triage,
        note: form.get("note").map(str::to_owned).or(stored.change.note),
        triaged_by: Some(context.caller.name.clone()),
        triaged_unix_ms: Some(unix_ms()),
        ..stored.change
    })?;
    context.record_action("triage", &subject, "done");
    let branch = form.get("branch").map(encode_segment);
    let query = branch.map_or_else(String::new, |branch| format!("?branch={branch}"));
    Ok(redirect_to(&format!("/{}/alerts{query}", project.name)))
}

/// Builds the table of open changes. Each row links to the case's trend and to the revision after
/// the change.
pub fn open_changes_table(context: PageContext<'_>, history: &ProjectHistory) -> Document {
    let mut document =
        report::report_changes(history, &|_, change| change.is_open(), &context.report_options());
    link_column(&mut document, "changes", "case", |case| {
        let case = case.as_str()?;
        let is_known = history.series.iter().any(|series| *series.key.case == *case);
        is_known.then(|| context.trend_href(case))
    });
    link_by(&mut document, "changes", ["between", "after"], |after| {
        Some(context.revision_href(after.as_str()?))
    });
    document
}

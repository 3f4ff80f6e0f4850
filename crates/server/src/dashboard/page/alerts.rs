//! Builds `/PROJECT/alerts`, the page that corresponds to `speedwell history changes --open`.

use super::{PageContent, PageContext};
use crate::dashboard::access::RequiredPermission;
use crate::dashboard::forms::triage_form;
use crate::dashboard::link::{link_by, link_column};
use crate::dashboard::lookups::TrendQuery;
use crate::dashboard::page_error::PageError;
use speedwell_analysis::history::ProjectHistory;
use speedwell_model::ChangeTriage;
use speedwell_report::html::{FormField, PageForm, PageLink};
use speedwell_report::{self as report, Document};

pub fn alerts_page(context: PageContext<'_>) -> Result<PageContent, PageError> {
    context.query.check_names(&["branch"])?;
    let trend_query = TrendQuery {
        branch: context.query.get("branch").map(str::to_owned),
        ..TrendQuery::default()
    };
    let history = context.project.load_history(&trend_query)?;
    let [branches, _] = context.store.branches_and_tags()?;
    let default_option = (String::new(), "default".to_owned());
    let branch_options = branches.into_iter().map(|name| (name.clone(), name));
    let filters = PageForm {
        action: context.page_href("alerts"),
        title: "Filter".into(),
        button: "Show".into(),
        fields: vec![FormField {
            name: "branch",
            label: "branch".into(),
            value: trend_query.branch.clone().unwrap_or_default(),
            options: std::iter::once(default_option).chain(branch_options).collect(),
            ..FormField::default()
        }],
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

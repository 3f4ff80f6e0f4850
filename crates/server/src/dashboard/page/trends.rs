//! Builds `/PROJECT/trend` without a case: a list of all series of a branch, which can be searched.

use crate::dashboard::address::encode_segment;
use crate::dashboard::lookups::TrendQuery;
use crate::dashboard::page::trend::with_series;
use crate::dashboard::page::{
    MAX_AGE, PageContent, PageContext, PageResult, link_column, named_options,
};
use crate::dashboard::site::unix_ms;
use crate::http::HttpError;
use speedwell_analysis::history::SeriesTrend;
use speedwell_report::Document;
use speedwell_report::html::{FormField, PageForm};
use std::collections::BTreeSet;

/// Query keys of the list.
pub const LIST_KEYS: [&str; 4] = ["filter", "metric", "variant", "branch"];

/// Lists the series of a branch.
pub fn trends_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&LIST_KEYS)?;
    let trend_query = TrendQuery {
        branch: context.query.get("branch").map(str::to_owned),
        metrics: context.query.get("metric").map(str::to_owned).into_iter().collect(),
        ..TrendQuery::default()
    };
    let history = context.project.load_history(&trend_query)?;
    let filter = context.query.get("filter").unwrap_or_default();
    let now = unix_ms();
    let mut document = match context.query.get("variant") {
        None => speedwell_report::report_trends(&history, filter, now),
        Some(variant) => {
            let is_selected = |series: &&SeriesTrend| series.key.variant == variant;
            let series: Vec<SeriesTrend> =
                history.series.iter().filter(is_selected).cloned().collect();
            if series.is_empty() {
                return Err(HttpError::not_found("no series for this variant"));
            }
            speedwell_report::report_trends(&with_series(&history, series), filter, now)
        }
    };
    link_series(&mut document, context);
    Ok(PageContent {
        crumbs: vec![context.page_link("trend", "trend")],
        filters: Some(list_form(context)?),
        is_cacheable: true,
        max_age: Some(MAX_AGE),
        ..PageContent::from_document(document)
    })
}

/// Links each series to the trend of its case, with the same branch and metric as the page.
pub fn link_series(document: &mut Document, context: PageContext<'_>) {
    let kept: String = ["branch", "metric"]
        .into_iter()
        .filter_map(|name| Some(format!("&{name}={}", encode_segment(context.query.get(name)?))))
        .collect();
    link_column(document, "series", "case", |case| {
        Some(context.trend_href(case.as_str()?) + &kept)
    });
}

/// Builds the form, with suggestions for every free field.
fn list_form(context: PageContext<'_>) -> Result<PageForm, HttpError> {
    let [branches, _] = context.store.branches_and_tags()?;
    let series = context.store.list_series()?;
    let names = |name: fn(&speedwell_model::SeriesKey) -> &str| -> Vec<String> {
        let names: BTreeSet<&str> = series.iter().map(|series| name(&series.key)).collect();
        names.into_iter().map(str::to_owned).collect()
    };
    let field = |name, placeholder, suggestions| FormField {
        suggestions,
        ..context.query_field(name, placeholder, Vec::new())
    };
    let fields = vec![
        field("filter", "part of a name", names(|key| &key.case)),
        field("metric", "primary", names(|key| &key.metric.name)),
        field("variant", "any", names(|key| &key.variant)),
        context.query_field("branch", "", named_options("default", branches)),
    ];
    Ok(PageForm {
        set: context.set_filters("trend", &LIST_KEYS),
        ..context.filter_form("trend", fields)
    })
}

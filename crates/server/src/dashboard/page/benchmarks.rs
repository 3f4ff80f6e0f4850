//! Builds `/PROJECT/benchmarks`, which lists all benchmarks, and `/PROJECT/benchmarks/GROUP/NAME`,
//! which shows one benchmark.

use crate::dashboard::link::{link_column, nearest_names};
use crate::dashboard::page::content::{PageContent, PageContext, PageResult};
use crate::dashboard::page::session::check_runs;
use crate::http::HttpError;
use speedwell_analysis as analysis;
use speedwell_model::{ParameterValue, Session};
use speedwell_report::html::PageLink;
use speedwell_report::{self as report, Document};
use std::collections::BTreeMap;

/// Lists all benchmarks.
pub fn benchmarks_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    let mut document = report::list_benchmarks(&context.store.list_benchmarks()?);
    link_column(&mut document, "benchmarks", "benchmark", |name| {
        Some(context.benchmark_href(name.as_str()?))
    });
    link_column(&mut document, "benchmarks", "newest", |number| {
        Some(context.numbered_href(number.as_i64()?))
    });
    Ok(PageContent {
        crumbs: vec![PageLink::new(context.page_href("benchmarks"), "benchmarks")],
        is_cacheable: true,
        ..PageContent::from_document(document)
    }
    .into())
}

/// Shows one benchmark: its cases, and its results in the newest session.
pub fn benchmark_page(context: PageContext<'_>) -> PageResult {
    let name = context.name;
    context.query.check_names(&[])?;
    let cases = context.store.benchmark_cases(name)?;
    let Some(newest) = cases.first().map(|case| case.newest) else {
        return Err(unknown_benchmark(context, name)?);
    };
    let mut document = report::list_cases(name, &cases);
    link_column(&mut document, "cases", "case", |case| Some(context.trend_href(case.as_str()?)));
    link_column(&mut document, "cases", "newest", |number| {
        Some(context.numbered_href(number.as_i64()?))
    });
    if let Some(overview) = context.store.find_overview(newest)? {
        check_runs(&[&overview])?;
        let session = context.store.load_session(newest)?;
        document.push_heading(2, format!("In the newest session, @{newest}"));
        document.append_document(session_results(context, &session, name)?);
    }
    let sessions = context
        .page_href(&format!("sessions?benchmark={}", crate::dashboard::link::encode_segment(name)));
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(context.page_href("benchmarks"), "benchmarks"),
            PageLink::new(context.benchmark_href(name), name),
        ],
        links: vec![
            PageLink::new(sessions, "all sessions"),
            PageLink::new(context.numbered_href(newest), format!("newest session @{newest}")),
        ],
        is_cacheable: true,
        ..PageContent::from_document(document)
    }
    .into())
}

fn unknown_benchmark(context: PageContext<'_>, name: &str) -> Result<HttpError, HttpError> {
    let benchmarks = context.store.list_benchmarks()?;
    let pages = nearest_names(name, benchmarks.iter().map(|benchmark| benchmark.name.as_str()))
        .into_iter()
        .map(|name| (context.benchmark_href(name), name.to_owned()));
    Ok(HttpError::not_found(format!("benchmark '{name}' not found")).with_nearest(pages.collect()))
}

/// Renders the results of a benchmark in one session. If [`studied_parameter`] selects a parameter,
/// also shows how the results depend on it.
fn session_results(
    context: PageContext<'_>,
    session: &Session,
    name: &str,
) -> Result<Document, HttpError> {
    let part = session.with_runs(|run| run.case.benchmark == name);
    let settings = (context.project.lookups.settings)(&[])?;
    let output = context.report_options();
    let mut document =
        report::report_findings(&analysis::analyze_session(&part, &settings), &output)?;
    // The page has a headline of its own.
    document.blocks.retain(|block| !matches!(block, report::ReportBlock::Headline(_)));
    if let Some(parameter) = studied_parameter(&part) {
        let study = analysis::study_parameter(&part, &parameter, None, &settings)?;
        document.push_heading(2, format!("By {parameter}"));
        document.append_document(report::report_study(&study, false, &output)?);
    }
    Ok(document)
}

/// Returns the parameter to chart: the parameter with the most distinct numeric values. Returns
/// `None` if no parameter has at least three.
fn studied_parameter(session: &Session) -> Option<String> {
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for run in &session.runs {
        for (name, value) in &run.case.values {
            if let ParameterValue::Number(number) = value {
                let distinct = values.entry(name).or_default();
                let number_string = number.to_string();
                if !distinct.contains(&number_string) {
                    distinct.push(number_string);
                }
            }
        }
    }
    let widest = values
        .into_iter()
        .filter(|(_, values)| values.len() > 2)
        .max_by_key(|(_, values)| values.len())?;
    Some(widest.0.to_owned())
}

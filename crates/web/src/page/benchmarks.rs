//! `/PROJECT/benchmarks` and `/PROJECT/benchmarks/GROUP/NAME`: benchmarks by name.

use super::session::check_runs;
use super::{PageContent, PageContext};
use crate::link::link_column;
use crate::refusal::{PageError, nearest_names};
use speedwell_analysis as analysis;
use speedwell_model::{ParameterValue, Session};
use speedwell_report::html::PageLink;
use speedwell_report::{self as report, Document};
use std::collections::BTreeMap;

/// Lists all benchmarks.
pub fn benchmarks_page(visit: PageContext<'_>) -> Result<PageContent, PageError> {
    visit.query.check_names(&[])?;
    let mut document = report::list_benchmarks(&visit.store.list_benchmarks()?);
    link_column(&mut document, "benchmarks", "benchmark", |name| {
        Some(visit.benchmark_href(name.as_str()?))
    });
    link_column(&mut document, "benchmarks", "newest", |number| {
        Some(visit.numbered_href(number.as_i64()?))
    });
    Ok(PageContent {
        crumbs: vec![PageLink::new(visit.page_href("benchmarks"), "benchmarks")],
        is_lasting: true,
        ..PageContent::from_document(document)
    })
}

/// Shows one benchmark: its cases, and its results in the newest session.
pub fn benchmark_page(visit: PageContext<'_>, name: &str) -> Result<PageContent, PageError> {
    visit.query.check_names(&[])?;
    let cases = visit.store.benchmark_cases(name)?;
    let Some(newest) = cases.first().map(|case| case.newest) else {
        return Err(unknown_benchmark(visit, name)?);
    };
    let mut document = report::list_cases(name, &cases);
    link_column(&mut document, "cases", "case", |case| {
        Some(visit.trend_href(case.as_str()?))
    });
    link_column(&mut document, "cases", "newest", |number| {
        Some(visit.numbered_href(number.as_i64()?))
    });
    if let Some(overview) = visit.store.find_overview(newest)? {
        check_runs(&[&overview])?;
        let session = visit.store.load_session(newest)?;
        document.push_heading(2, format!("In the newest session, @{newest}"));
        document.append_document(session_results(visit, &session, name)?);
    }
    let sessions = visit.page_href(&format!(
        "sessions?benchmark={}",
        crate::link::encode_segment(name)
    ));
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(visit.page_href("benchmarks"), "benchmarks"),
            PageLink::new(visit.benchmark_href(name), name),
        ],
        links: vec![
            PageLink::new(sessions, "all sessions"),
            PageLink::new(
                visit.numbered_href(newest),
                format!("newest session @{newest}"),
            ),
        ],
        is_lasting: true,
        ..PageContent::from_document(document)
    })
}

fn unknown_benchmark(visit: PageContext<'_>, name: &str) -> Result<PageError, PageError> {
    let benchmarks = visit.store.list_benchmarks()?;
    let pages = nearest_names(
        name,
        benchmarks.iter().map(|benchmark| benchmark.name.as_str()),
    )
    .into_iter()
    .map(|name| (visit.benchmark_href(name), name.to_owned()));
    Ok(PageError::not_found(format!("benchmark '{name}' not found")).with_nearest(pages.collect()))
}

/// Renders the results of a benchmark in one session, and their dependence on the parameter that
/// [`studied_parameter`] selects.
fn session_results(
    visit: PageContext<'_>,
    session: &Session,
    name: &str,
) -> Result<Document, PageError> {
    let part = session.with_runs(|run| run.case.benchmark == name);
    let settings = (visit.project.lookups.settings)(&[])?;
    let output = visit.report_options();
    let mut found = report::report_findings(&analysis::analyze_session(&part, &settings), &output)?;
    // The page has a headline of its own.
    found
        .blocks
        .retain(|block| !matches!(block, report::ReportBlock::Headline(_)));
    if let Some(parameter) = studied_parameter(&part) {
        let study = analysis::study_parameter(&part, &parameter, None, &settings)?;
        found.push_heading(2, format!("By {parameter}"));
        found.append_document(report::report_study(&study, false, &output)?);
    }
    Ok(found)
}

/// Returns the parameter to chart: the one with the most numeric values, if it has at least three.
fn studied_parameter(session: &Session) -> Option<String> {
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for run in &session.runs {
        for (name, value) in &run.case.values {
            if let ParameterValue::Number(number) = value {
                let known = values.entry(name).or_default();
                let text = number.to_string();
                if !known.contains(&text) {
                    known.push(text);
                }
            }
        }
    }
    let most = values
        .into_iter()
        .filter(|(_, values)| values.len() > 2)
        .max_by_key(|(_, values)| values.len())?;
    Some(most.0.to_owned())
}

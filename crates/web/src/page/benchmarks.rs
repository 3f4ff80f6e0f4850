//! `/PROJECT/benchmarks` and `/PROJECT/benchmarks/GROUP/NAME`: benchmarks by name.

use super::session::check_runs;
use super::{Page, Visit};
use crate::link::link_column;
use crate::refusal::{Refusal, nearest};
use speedwell_analysis as analysis;
use speedwell_model::{Session, Value};
use speedwell_report::html::Link;
use speedwell_report::{self as report, Document};
use std::collections::BTreeMap;

/// Lists all benchmarks.
pub fn all(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let mut document = report::benchmarks(&visit.store.benchmarks()?);
    link_column(&mut document, "benchmarks", "benchmark", |name| {
        Some(visit.benchmark(name.as_str()?))
    });
    link_column(&mut document, "benchmarks", "newest", |number| {
        Some(visit.numbered(number.as_i64()?))
    });
    Ok(Page {
        crumbs: vec![Link::new(visit.href("benchmarks"), "benchmarks")],
        is_lasting: true,
        ..Page::of(document)
    })
}

/// Shows one benchmark: its cases, and its results in the newest session.
pub fn one(visit: Visit<'_>, name: &str) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let cases = visit.store.cases_of(name)?;
    let Some(newest) = cases.first().map(|case| case.newest) else {
        return Err(unknown(visit, name)?);
    };
    let mut document = report::cases_of(name, &cases);
    link_column(&mut document, "cases", "case", |case| {
        Some(visit.trend(case.as_str()?))
    });
    link_column(&mut document, "cases", "newest", |number| {
        Some(visit.numbered(number.as_i64()?))
    });
    if let Some(overview) = visit.store.overview(newest)? {
        check_runs(&[&overview])?;
        let session = visit.store.session(newest)?;
        document.push_heading(2, format!("In the newest session, @{newest}"));
        document.append(of_session(visit, &session, name)?);
    }
    let sessions = visit.href(&format!(
        "sessions?benchmark={}",
        crate::link::encoded(name)
    ));
    Ok(Page {
        crumbs: vec![
            Link::new(visit.href("benchmarks"), "benchmarks"),
            Link::new(visit.benchmark(name), name),
        ],
        links: vec![
            Link::new(sessions, "its sessions"),
            Link::new(visit.numbered(newest), format!("newest session @{newest}")),
        ],
        is_lasting: true,
        ..Page::of(document)
    })
}

fn unknown(visit: Visit<'_>, name: &str) -> Result<Refusal, Refusal> {
    let known = visit.store.benchmarks()?;
    let names = nearest(name, known.iter().map(|benchmark| benchmark.name.as_str()));
    let pages = names.into_iter();
    let pages = pages.map(|name| (visit.benchmark(name), name.to_owned()));
    Ok(Refusal::missing(format!("there is no benchmark '{name}'")).nearest(pages.collect()))
}

/// Renders the results of a benchmark in one session, and their dependence on the parameter that
/// [`studied`] selects.
fn of_session(visit: Visit<'_>, session: &Session, name: &str) -> Result<Document, Refusal> {
    let part = session.part(|run| run.case.benchmark == name);
    let settings = (visit.project.lookups.settings)(&[])?;
    let output = visit.output();
    let mut found = report::findings(&analysis::analyse(&part, &settings), &output)?;
    // The page has a headline of its own.
    found
        .blocks
        .retain(|block| !matches!(block, report::Block::Headline(_)));
    if let Some(parameter) = studied(&part) {
        let study = analysis::study(&part, &parameter, None, &settings)?;
        found.push_heading(2, format!("By {parameter}"));
        found.append(report::study(&study, false, &output)?);
    }
    Ok(found)
}

/// Returns the parameter to chart: the one with the most numeric values, if it has at least three.
fn studied(session: &Session) -> Option<String> {
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for run in &session.runs {
        for (name, value) in &run.case.values {
            if let Value::Number(number) = value {
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

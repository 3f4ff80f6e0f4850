//! Builds the pages that list what a project knows: `/PROJECT/benchmarks` and
//! `/PROJECT/benchmarks/GROUP/NAME`; `/PROJECT/machines`, `/PROJECT/machines/NUMBER` and
//! `/PROJECT/calibration`, with changes of the environment; and `/PROJECT/search`.

use crate::dashboard::address::{encode_path, encode_segment, nearest_links};
use crate::dashboard::page::session::check_runs;
use crate::dashboard::page::{
    PageContent, PageContext, PageResult, link_by, link_column, link_table,
};
use crate::http::HttpError;
use speedwell_analysis::{self as analysis, EnvironmentFacts};
use speedwell_model::stored::StoredMachine;
use speedwell_model::{ParameterValue, SeriesKey, Session};
use speedwell_report::html::PageLink;
use speedwell_report::{self as report, Document, NoisySeries, ReportBlock, ReportRow};
use speedwell_store::SessionFilter;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Lists all benchmarks.
pub fn benchmarks_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    let mut document = report::list_benchmarks(&context.store.list_benchmarks()?);
    link_column(&mut document, "benchmarks", "benchmark", |name| {
        Some(context.benchmark_href(name.as_str()?))
    });
    context.link_numbers(&mut document, "benchmarks", "newest");
    Ok(PageContent {
        crumbs: vec![context.page_link("benchmarks", "benchmarks")],
        is_cacheable: true,
        ..PageContent::from_document(document)
    })
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
    context.link_numbers(&mut document, "cases", "newest");
    if let Some(overview) = context.store.find_overview(newest)? {
        check_runs(overview.runs)?;
        let session = context.store.load_session(newest)?;
        document.push_heading(2, format!("In the newest session, @{newest}"));
        document.append_document(session_results(context, &session, name)?);
    }
    let sessions = context.page_href(&format!("sessions?benchmark={}", encode_segment(name)));
    Ok(PageContent {
        crumbs: context.crumbs("benchmarks", context.benchmark_href(name), name),
        links: vec![
            PageLink::new(sessions, "all sessions"),
            PageLink::new(context.numbered_href(newest), format!("newest session @{newest}")),
        ],
        is_cacheable: true,
        ..PageContent::from_document(document)
    })
}

fn unknown_benchmark(context: PageContext<'_>, name: &str) -> Result<HttpError, HttpError> {
    let benchmarks = context.store.list_benchmarks()?;
    let names = benchmarks.iter().map(|benchmark| benchmark.name.as_str());
    Ok(HttpError::not_found(format!("benchmark '{name}' not found")).with_nearest(nearest_links(
        name,
        names,
        |name| context.benchmark_href(name),
    )))
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

/// Maximum number of sessions listed for a machine.
const MAX_SESSIONS: usize = 50;

/// Maximum number of a machine's sessions to search for environment changes.
const MAX_SEARCHED_SESSIONS: usize = 500;

/// Maximum number of series listed because their noise grew.
const MAX_NOISY_SERIES: usize = 20;

/// Lists all machines.
pub fn machines_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    // A machine is known once a history point has been computed for one of its sessions. If
    // computing missing points fails, the page lists the machines known so far.
    let _ = context.project.summarize();
    let machines = context.store.list_machines()?;
    let calibrations = context.store.list_calibrations()?;
    let calibration_of = |machine: &StoredMachine| {
        let found =
            calibrations.iter().find(|calibration| calibration.host == machine.machine.name);
        found.map(|calibration| calibration.found)
    };
    let mut document = report::list_machines(&machines, &calibration_of);
    link_by(&mut document, "machines", ["machine", "number"], |number| {
        Some(context.page_href(&format!("machines/{number}")))
    });
    Ok(PageContent {
        crumbs: vec![context.page_link("machines", "machines")],
        ..PageContent::from_document(document)
    })
}

/// Shows one machine.
pub fn machine_page(context: PageContext<'_>) -> PageResult {
    let number = context.name;
    context.query.check_names(&[])?;
    let machines = context.store.list_machines()?;
    let found = machines.iter().find(|machine| machine.number.to_string() == number);
    let Some(machine) = found else {
        let pages = machines.iter().take(5).map(|machine| {
            let address = context.page_href(&format!("machines/{}", machine.number));
            (address, machine.machine.title().to_owned())
        });
        return Err(HttpError::not_found(format!("machine {number} not found"))
            .with_nearest(pages.collect()));
    };
    let filter = SessionFilter { machine: Some(machine.number), ..SessionFilter::default() };
    let mut document = report::describe_machine(machine);
    if let Some(newest) = machine.newest {
        let session = context.store.load_session_without_runs(newest)?;
        document.append_document(report::report_environment(&session.environment, None));
    }
    let numbers = context.store.selected_numbers(&filter, MAX_SEARCHED_SESSIONS)?;
    let sessions = session_facts(context, &numbers)?;
    document.append_document(report::list_environment_changes(&analysis::fact_changes(&sessions)));
    if let Some((first, _)) = sessions.first() {
        let noisy = noisy_series(context, machine.number, *first)?;
        let mut list = report::list_noisy_series(&noisy);
        link_trends(context, &mut list, &noisy, machine.number);
        document.append_document(list);
    }
    let activity = analysis::activity_by_session(&sessions);
    document.append_document(report::chart_machine_load(&activity));
    document.push_heading(2, "Sessions");
    document.append_document(
        context.list_sessions(&context.store.select_sessions(&filter, MAX_SESSIONS)?, None),
    );
    context.link_numbers(&mut document, "environment_facts", "session");
    let sessions_href = context.page_href(&format!("sessions?machine={}", machine.number));
    let own_href = context.page_href(&format!("machines/{}", machine.number));
    Ok(PageContent {
        crumbs: context.crumbs("machines", own_href, machine.machine.title()),
        links: vec![
            PageLink::new(sessions_href, "all sessions"),
            context.page_link("calibration", "calibrations"),
        ],
        choice: Some(context.row_choice()),
        ..PageContent::from_document(document)
    })
}

/// Returns the facts of these sessions, oldest first. Sessions without points have none.
fn session_facts(
    context: PageContext<'_>,
    numbers: &[i64],
) -> Result<Vec<(i64, EnvironmentFacts)>, HttpError> {
    let mut sessions = Vec::new();
    for (facts, sharing) in context.store.facts_by_sessions(numbers)? {
        let facts: EnvironmentFacts = Arc::new(facts);
        sessions.extend(sharing.into_iter().map(|number| (number, facts.clone())));
    }
    sessions.sort_by_key(|(number, _)| *number);
    Ok(sessions)
}

/// Returns the series whose noise grew on a machine since session `first`.
fn noisy_series(
    context: PageContext<'_>,
    machine: i64,
    first: i64,
) -> Result<Vec<NoisySeries>, HttpError> {
    let grown = analysis::grown_noise(&context.store.spreads_on_machine(machine, first)?);
    if grown.is_empty() {
        return Ok(Vec::new());
    }
    let keys: HashMap<i64, SeriesKey> = context
        .store
        .list_series()?
        .into_iter()
        .map(|series| (series.number, series.key))
        .collect();
    let lines = grown.into_iter().take(MAX_NOISY_SERIES).filter_map(|noise| {
        let key = keys.get(&noise.series)?.clone();
        Some(NoisySeries { key, before: noise.before, after: noise.after })
    });
    Ok(lines.collect())
}

/// Links each listed series to its trend on the machine.
fn link_trends(context: PageContext<'_>, list: &mut Document, noisy: &[NoisySeries], machine: i64) {
    list.for_each_table(&mut |table| {
        for (row, NoisySeries { key, .. }) in table.rows.iter_mut().zip(noisy) {
            if let ReportRow::Cells(cells) = row
                && let Some(case) = cells.first_mut()
            {
                let (trend, metric) =
                    (context.trend_href(&key.case), encode_segment(&key.metric.name));
                case.rare_mut().link = Some(format!("{trend}&metric={metric}&machine={machine}"));
            }
        }
    });
}

/// Builds `/PROJECT/calibration`, which lists the false alarms per machine.
pub fn calibration_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    let mut document = report::list_calibrations(&context.store.list_calibrations()?);
    context.link_numbers(&mut document, "calibrations", "session");
    Ok(PageContent {
        crumbs: vec![context.page_link("calibration", "calibration")],
        is_cacheable: true,
        ..PageContent::from_document(document)
    })
}

/// Maximum number of hits of each kind.
const MAX_HITS: usize = 20;

/// A kind of search result, with the address and the name of each hit.
type SearchHits = (&'static str, Vec<(String, String)>);

pub fn search_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&["q"])?;
    let term = context.query.get("q").unwrap_or_default();
    let mut document = Document::new("search");
    let hits_by_kind: Vec<SearchHits> = match term {
        "" => Vec::new(),
        term => find_hits(context, term)?,
    };
    let hits: usize = hits_by_kind.iter().map(|(_, hits)| hits.len()).sum();
    document.push(ReportBlock::Headline(match (term, hits) {
        ("", _) => "enter a search term".to_owned(),
        (term, 0) => format!("no results for '{term}'"),
        (term, 1) => format!("1 result for '{term}'"),
        (term, hits) => format!("{hits} results for '{term}'"),
    }));
    for (kind, hits) in hits_by_kind.into_iter().filter(|(_, hits)| !hits.is_empty()) {
        document.push_heading(2, format!("{}{}", kind[..1].to_uppercase(), &kind[1..]));
        document.push(link_table(kind, &hits));
    }
    Ok(PageContent {
        crumbs: vec![context.page_link("search", "search")],
        ..PageContent::from_document(document)
    })
}

fn find_hits(context: PageContext<'_>, term: &str) -> Result<Vec<SearchHits>, HttpError> {
    let lower = term.to_lowercase();
    let is_hit = |name: &str| name.to_lowercase().contains(&lower);
    let store = context.store;
    let benchmarks = store
        .list_benchmarks()?
        .into_iter()
        .filter(|benchmark| is_hit(&benchmark.name))
        .map(|benchmark| (context.benchmark_href(&benchmark.name), benchmark.name));
    let mut sessions = Vec::new();
    let number = term.trim_start_matches('@').parse::<i64>().ok();
    if let Some(number) = number
        && store.find_overview(number)?.is_some()
    {
        sessions.push((context.numbered_href(number), format!("@{number}")));
    }
    let [branches, tags] = store.branches_and_tags()?;
    let tag = term.trim_start_matches('@').to_lowercase();
    let tagged = tags.into_iter().filter(|candidate| candidate.to_lowercase().contains(&tag));
    sessions.extend(tagged.map(|tag| {
        let reference = format!("@{tag}");
        (context.page_href(&encode_path(&reference)), reference)
    }));
    let revisions = store
        .revisions_with_prefix(term, MAX_HITS)?
        .into_iter()
        .map(|id| (context.revision_href(&id), id));
    let branch_hits = branches
        .into_iter()
        .filter(|name| is_hit(name))
        .map(|name| (context.branch_href(&name), name));
    let machines = store
        .machine_titles()?
        .into_iter()
        .filter(|(_, title)| is_hit(title))
        .map(|(number, title)| (context.page_href(&format!("machines/{number}")), title));
    Ok(vec![
        ("benchmarks", benchmarks.take(MAX_HITS).collect()),
        ("cases", find_cases(context, &is_hit)?),
        ("sessions", sessions.into_iter().take(MAX_HITS).collect()),
        ("revisions", revisions.collect()),
        ("branches", branch_hits.take(MAX_HITS).collect()),
        ("machines", machines.take(MAX_HITS).collect()),
    ])
}

/// Finds cases that have a trend page.
fn find_cases(
    context: PageContext<'_>,
    is_hit: &dyn Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, HttpError> {
    let mut names: Vec<String> = Vec::new();
    for series in context.store.list_series()? {
        if is_hit(&series.key.case) && !names.iter().any(|candidate| *candidate == *series.key.case)
        {
            names.push(series.key.case.to_string());
        }
        if names.len() == MAX_HITS {
            break;
        }
    }
    let links = names.into_iter().map(|case| (context.trend_href(&case), case));
    Ok(links.collect())
}

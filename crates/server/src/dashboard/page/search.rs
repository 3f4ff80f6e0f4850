//! Builds `/PROJECT/search`. It finds benchmarks, cases, branches and machines by a part of the
//! name, sessions by number or tag, and revisions by the beginning of the id.

use crate::dashboard::page::content::{PageContent, PageContext, PageResult};
use crate::http::HttpError;
use speedwell_report::html::PageLink;
use speedwell_report::{
    ColumnKind, Document, ReportBlock, ReportCell, ReportColumn, ReportRow, ReportTable,
};

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
        let rows = hits
            .iter()
            .map(|(href, name)| ReportRow::Cells(vec![ReportCell::words(name).with_link(href)]));
        document.push(ReportBlock::Table(ReportTable {
            columns: vec![ReportColumn::new("name", "name", ColumnKind::Label)],
            rows: rows.collect(),
            ..ReportTable::new(kind)
        }));
    }
    Ok(PageContent {
        crumbs: vec![PageLink::new(context.page_href("search"), "search")],
        ..PageContent::from_document(document)
    }
    .into())
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
        (context.page_href(&crate::dashboard::link::encode_path(&reference)), reference)
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

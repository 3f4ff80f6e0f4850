//! `/PROJECT/search`: finds benchmarks, cases, sessions, revisions, branches and machines by part
//! of their names.

use super::{PageContent, PageContext};
use crate::refusal::PageError;
use speedwell_report::html::PageLink;
use speedwell_report::{
    ColumnKind, Document, ReportBlock, ReportCell, ReportColumn, ReportRow, ReportTable,
};

/// Maximum number of hits of each kind.
const MAX_HITS: usize = 20;

/// A kind of thing, with the addresses and names of its hits.
type SearchHits = (&'static str, Vec<(String, String)>);

pub fn search_page(visit: PageContext<'_>) -> Result<PageContent, PageError> {
    visit.query.check_names(&["q"])?;
    let wanted = visit.query.get("q").unwrap_or_default();
    let mut document = Document::new("search");
    let found: Vec<SearchHits> = match wanted {
        "" => Vec::new(),
        wanted => find_hits(visit, wanted)?,
    };
    let hits: usize = found.iter().map(|(_, hits)| hits.len()).sum();
    document.push(ReportBlock::Headline(match (wanted, hits) {
        ("", _) => "enter a search term".to_owned(),
        (wanted, 0) => format!("no results for '{wanted}'"),
        (wanted, 1) => format!("1 result for '{wanted}'"),
        (wanted, hits) => format!("{hits} results for '{wanted}'"),
    }));
    for (kind, hits) in found.into_iter().filter(|(_, hits)| !hits.is_empty()) {
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
        crumbs: vec![PageLink::new(visit.page_href("search"), "search")],
        ..PageContent::from_document(document)
    })
}

fn find_hits(visit: PageContext<'_>, wanted: &str) -> Result<Vec<SearchHits>, PageError> {
    let lower = wanted.to_lowercase();
    let is_hit = |name: &str| name.to_lowercase().contains(&lower);
    let store = visit.store;
    let benchmarks = store
        .list_benchmarks()?
        .into_iter()
        .filter(|benchmark| is_hit(&benchmark.name))
        .map(|benchmark| (visit.benchmark_href(&benchmark.name), benchmark.name));
    let mut sessions = Vec::new();
    let number = wanted.trim_start_matches('@').parse::<i64>().ok();
    if let Some(number) = number
        && store.find_overview(number)?.is_some()
    {
        sessions.push((visit.numbered_href(number), format!("@{number}")));
    }
    let [branches, tags] = store.branches_and_tags()?;
    let tag = wanted.trim_start_matches('@').to_lowercase();
    let tagged = tags
        .into_iter()
        .filter(|known| known.to_lowercase().contains(&tag));
    sessions.extend(tagged.map(|tag| {
        let word = format!("@{tag}");
        (visit.page_href(&crate::link::encode_path(&word)), word)
    }));
    let revisions = store
        .revisions_with_prefix(wanted, MAX_HITS)?
        .into_iter()
        .map(|id| (visit.revision_href(&id), id));
    let branch_hits = branches
        .into_iter()
        .filter(|name| is_hit(name))
        .map(|name| (visit.branch_href(&name), name));
    let machines = store
        .machine_titles()?
        .into_iter()
        .filter(|(_, title)| is_hit(title))
        .map(|(number, title)| (visit.page_href(&format!("machines/{number}")), title));
    Ok(vec![
        ("benchmarks", benchmarks.take(MAX_HITS).collect()),
        ("cases", find_cases(visit, &is_hit)?),
        ("sessions", sessions.into_iter().take(MAX_HITS).collect()),
        ("revisions", revisions.collect()),
        ("branches", branch_hits.take(MAX_HITS).collect()),
        ("machines", machines.take(MAX_HITS).collect()),
    ])
}

/// Finds cases that have a trend.
fn find_cases(
    visit: PageContext<'_>,
    is_hit: &dyn Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, PageError> {
    let mut names: Vec<String> = Vec::new();
    for series in visit.store.list_series()? {
        if is_hit(&series.key.case) && !names.iter().any(|known| *known == *series.key.case) {
            names.push(series.key.case.to_string());
        }
        if names.len() == MAX_HITS {
            break;
        }
    }
    let links = names
        .into_iter()
        .map(|case| (visit.trend_href(&case), case));
    Ok(links.collect())
}

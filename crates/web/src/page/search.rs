//! `/PROJECT/search`: finds benchmarks, cases, sessions, revisions, branches and machines by part
//! of their names.

use super::{Page, Visit};
use crate::refusal::Refusal;
use speedwell_report::html::Link;
use speedwell_report::{Block, Cell, Column, Document, Kind, Row, Table};

/// Maximum number of hits of each kind.
const HITS: usize = 20;

/// A kind of thing, with the addresses and names of its hits.
type Found = (&'static str, Vec<(String, String)>);

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&["q"])?;
    let wanted = visit.query.get("q").unwrap_or_default();
    let mut document = Document::new("search");
    let found: Vec<Found> = match wanted {
        "" => Vec::new(),
        wanted => found(visit, wanted)?,
    };
    let hits: usize = found.iter().map(|(_, hits)| hits.len()).sum();
    document.push(Block::Headline(match (wanted, hits) {
        ("", _) => "what are you looking for".to_owned(),
        (wanted, 0) => format!("nothing is called '{wanted}'"),
        (wanted, 1) => format!("1 hit for '{wanted}'"),
        (wanted, hits) => format!("{hits} hits for '{wanted}'"),
    }));
    for (kind, hits) in found.into_iter().filter(|(_, hits)| !hits.is_empty()) {
        document.push_heading(2, format!("{}{}", kind[..1].to_uppercase(), &kind[1..]));
        let rows = hits
            .iter()
            .map(|(href, name)| Row::Cells(vec![Cell::words(name).linked(href)]));
        document.push(Block::Table(Table {
            columns: vec![Column::new("name", "name", Kind::Label)],
            rows: rows.collect(),
            ..Table::new(kind)
        }));
    }
    Ok(Page {
        crumbs: vec![Link::new(visit.href("search"), "search")],
        ..Page::of(document)
    })
}

fn found(visit: Visit<'_>, wanted: &str) -> Result<Vec<Found>, Refusal> {
    let lower = wanted.to_lowercase();
    let is_hit = |name: &str| name.to_lowercase().contains(&lower);
    let store = visit.store;
    let benchmarks = store.benchmarks()?;
    let benchmarks = benchmarks
        .iter()
        .filter(|known| is_hit(&known.name))
        .map(|known| (visit.benchmark(&known.name), known.name.clone()));
    let mut sessions = Vec::new();
    let number = wanted.trim_start_matches('@').parse::<i64>().ok();
    if let Some(number) = number
        && store.overview(number)?.is_some()
    {
        sessions.push((visit.numbered(number), format!("@{number}")));
    }
    let [branches, tags] = store.branches_and_tags()?;
    let tag = wanted.trim_start_matches('@').to_lowercase();
    let tagged = tags
        .into_iter()
        .filter(|known| known.to_lowercase().contains(&tag));
    sessions.extend(tagged.map(|tag| {
        let word = format!("@{tag}");
        (visit.href(&crate::link::encoded_path(&word)), word)
    }));
    let revisions = store.revisions_beginning(wanted, HITS)?.into_iter();
    let revisions = revisions.map(|id| (visit.revision(&id), id));
    let branches = branches.into_iter().filter(|name| is_hit(name));
    let branches = branches.map(|name| (visit.branch(&name), name));
    let machines = store.machine_titles()?.into_iter();
    let machines = machines
        .filter(|(_, title)| is_hit(title))
        .map(|(number, title)| (visit.href(&format!("machines/{number}")), title));
    Ok(vec![
        ("benchmarks", benchmarks.take(HITS).collect()),
        ("cases", cases(visit, &is_hit)?),
        ("sessions", sessions.into_iter().take(HITS).collect()),
        ("revisions", revisions.collect()),
        ("branches", branches.take(HITS).collect()),
        ("machines", machines.take(HITS).collect()),
    ])
}

/// Finds cases that have a trend.
fn cases(
    visit: Visit<'_>,
    is_hit: &dyn Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, Refusal> {
    let mut names: Vec<String> = Vec::new();
    for series in visit.store.series()? {
        if is_hit(&series.key.case) && !names.iter().any(|known| *known == *series.key.case) {
            names.push(series.key.case.to_string());
        }
        if names.len() == HITS {
            break;
        }
    }
    let links = names.into_iter().map(|case| (visit.trend(&case), case));
    Ok(links.collect())
}

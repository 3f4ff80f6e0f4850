//! `/PROJECT/`: recent sessions and open changes.

use super::alerts::open_changes;
use super::{Page, Visit};
use crate::link::encoded;
use crate::lookups::Course;
use crate::refusal::Refusal;
use speedwell_analysis::history::History;
use speedwell_report::html::Link;
use speedwell_report::{self as report, Block, CourseAxis, Document, OpenChanges, moment};
use speedwell_results::store::{Overview, SessionFilter};

/// Newest sessions listed.
const ROWS: usize = 8;

/// Maximum number of series for which trends are drawn.
const SERIES: usize = 60;

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let newest = visit.store.selected(&SessionFilter::default(), ROWS)?;
    let Some(last) = newest.first() else {
        let mut document = Document::new("project");
        report::nothing_measured(&mut document);
        return Ok(Page::of(document));
    };
    let running: Vec<&Overview> = newest
        .iter()
        .filter(|session| session.state == speedwell_model::State::Running && !session.is_killed)
        .collect();
    // A project without a history still has sessions.
    let history = visit.project.history(&Course::default());
    let mut document = Document::new("project");
    let words = headline(last, running.len(), history.as_deref().ok());
    document.push(Block::Headline(format!("{}: {words}", visit.project.name)));
    // The store does not record that a process was killed, so such a page may go stale without a
    // change.
    let is_lasting = running.is_empty();
    if !is_lasting {
        document.push_heading(2, "Being measured");
        let owned: Vec<Overview> = running.into_iter().cloned().collect();
        document.append(visit.list(&owned));
    }
    match &history {
        Ok(history) => add_history(&mut document, visit, history),
        Err(refusal) => document.push(Block::Note(format!("No history: {}.", refusal.words))),
    }
    document.push_heading(2, "Newest sessions");
    document.append(visit.list(&newest));
    Ok(Page {
        links: links(visit)?,
        choice: None,
        is_lasting: is_lasting && history.is_ok(),
        ..Page::of(document)
    })
}

fn headline(last: &Overview, running: usize, history: Option<&History>) -> String {
    let words = match history {
        Some(history) => OpenChanges::of(history).sentence(history),
        None => "the history cannot be read".to_owned(),
    };
    let measuring = match running {
        0 => "",
        _ => "; measuring just now",
    };
    format!(
        "{words}{measuring}. Newest session: @{}, {}.",
        last.number,
        moment(last.started_unix_ms)
    )
}

/// Adds open changes, and the trend of every series, urgent ones first.
fn add_history(document: &mut Document, visit: Visit<'_>, history: &History) {
    let open = OpenChanges::of(history);
    if open.known + open.suspected > 0 {
        document.push_heading(2, "Open changes");
        let found = open_changes(visit, history);
        let tables = found.blocks.into_iter();
        document.extend(tables.filter(|block| matches!(block, Block::Table(_))));
    }
    if history.series.is_empty() || history.series.len() > SERIES {
        return;
    }
    // The points are listed on the trend page.
    let courses = report::trend(history, CourseAxis::Revision, 0, &visit.output());
    let mut galleries = courses.blocks.into_iter();
    if let Some(gallery) = galleries.find(|block| matches!(block, Block::Gallery(_))) {
        document.push(gallery);
    }
}

fn links(visit: Visit<'_>) -> Result<Vec<Link>, Refusal> {
    let mut links = vec![Link::new(
        visit.compare("@prev", "@latest"),
        "compare @prev with @latest",
    )];
    let [branches, _] = visit.store.branches_and_tags()?;
    for branch in branches.iter().take(4) {
        let trend = visit.href(&format!("trend?branch={}", encoded(branch)));
        links.push(Link::new(visit.branch(branch), format!("branch {branch}")));
        links.push(Link::new(trend, format!("trend of {branch}")));
    }
    Ok(links)
}

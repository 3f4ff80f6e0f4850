//! `/PROJECT/`: recent sessions and open changes.

use super::alerts::open_changes_table;
use super::{PageContent, PageContext};
use crate::link::encode_segment;
use crate::lookups::TrendQuery;
use crate::refusal::PageError;
use speedwell_analysis::history::ProjectHistory;
use speedwell_report::html::PageLink;
use speedwell_report::{
    self as report, Document, OpenChanges, ReportBlock, TrendXAxis, format_moment,
};
use speedwell_results::store::{SessionFilter, SessionOverview};

/// Newest sessions listed.
const MAX_SESSIONS: usize = 8;

/// Maximum number of series for which trends are drawn.
const MAX_SERIES: usize = 60;

pub fn project_page(visit: PageContext<'_>) -> Result<PageContent, PageError> {
    visit.query.check_names(&[])?;
    let newest = visit
        .store
        .select_sessions(&SessionFilter::default(), MAX_SESSIONS)?;
    let Some(last) = newest.first() else {
        let mut document = Document::new("project");
        report::add_first_steps(&mut document);
        return Ok(PageContent::from_document(document));
    };
    let running: Vec<&SessionOverview> = newest
        .iter()
        .filter(|session| {
            session.state == speedwell_model::SessionState::Running && !session.is_killed
        })
        .collect();
    // A project without a history still has sessions.
    let history = visit.project.load_history(&TrendQuery::default());
    let mut document = Document::new("project");
    let words = project_headline(last, running.len(), history.as_deref().ok());
    document.push(ReportBlock::Headline(format!(
        "{}: {words}",
        visit.project.name
    )));
    // The store does not record that a process was killed, so such a page may go stale without a
    // change.
    let is_lasting = running.is_empty();
    if !is_lasting {
        document.push_heading(2, "Running");
        let owned: Vec<SessionOverview> = running.into_iter().cloned().collect();
        document.append_document(visit.list_sessions(&owned));
    }
    match &history {
        Ok(history) => add_history(&mut document, visit, history),
        Err(refusal) => document.push(ReportBlock::Note(format!(
            "No history: {}.",
            refusal.message
        ))),
    }
    document.push_heading(2, "Newest sessions");
    document.append_document(visit.list_sessions(&newest));
    Ok(PageContent {
        links: project_links(visit)?,
        choice: None,
        is_lasting: is_lasting && history.is_ok(),
        ..PageContent::from_document(document)
    })
}

fn project_headline(
    last: &SessionOverview,
    running: usize,
    history: Option<&ProjectHistory>,
) -> String {
    let words = match history {
        Some(history) => OpenChanges::from_history(history).sentence(history),
        None => "history unavailable".to_owned(),
    };
    let measuring = match running {
        0 => "",
        _ => "; measurement in progress",
    };
    format!(
        "{words}{measuring}. Newest session: @{}, {}.",
        last.number,
        format_moment(last.started_unix_ms)
    )
}

/// Adds open changes, and the trend of every series, urgent ones first.
fn add_history(document: &mut Document, visit: PageContext<'_>, history: &ProjectHistory) {
    let open = OpenChanges::from_history(history);
    if open.known + open.suspected > 0 {
        document.push_heading(2, "Open changes");
        let found = open_changes_table(visit, history);
        let tables = found.blocks.into_iter();
        document.extend(tables.filter(|block| matches!(block, ReportBlock::Table(_))));
    }
    if history.series.is_empty() || history.series.len() > MAX_SERIES {
        return;
    }
    // The points are listed on the trend page.
    let courses = report::report_trend(history, TrendXAxis::Revision, 0, &visit.report_options());
    let mut galleries = courses.blocks.into_iter();
    if let Some(gallery) = galleries.find(|block| matches!(block, ReportBlock::Gallery(_))) {
        document.push(gallery);
    }
}

fn project_links(visit: PageContext<'_>) -> Result<Vec<PageLink>, PageError> {
    let mut links = vec![PageLink::new(
        visit.compare_href("@prev", "@latest"),
        "compare @prev with @latest",
    )];
    let [branches, _] = visit.store.branches_and_tags()?;
    for branch in branches.iter().take(4) {
        let trend = visit.page_href(&format!("trend?branch={}", encode_segment(branch)));
        links.push(PageLink::new(
            visit.branch_href(branch),
            format!("branch {branch}"),
        ));
        links.push(PageLink::new(trend, format!("trend of {branch}")));
    }
    Ok(links)
}

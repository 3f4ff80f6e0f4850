//! Builds `/PROJECT/`, which shows recent sessions and open changes.

use crate::dashboard::link::encode_segment;
use crate::dashboard::lookups::TrendQuery;
use crate::dashboard::page::alerts::open_changes_table;
use crate::dashboard::page::content::{PageContent, PageContext, PageResult};
use crate::http::HttpError;
use speedwell_analysis::history::ProjectHistory;
use speedwell_model::stored::SessionOverview;
use speedwell_report::html::PageLink;
use speedwell_report::{
    self as report, Document, OpenChanges, ReportBlock, TrendXAxis, format_moment,
};
use speedwell_store::SessionFilter;

/// Maximum number of recent sessions listed.
const MAX_SESSIONS: usize = 8;

/// Maximum number of series. With more series, no trends are drawn.
const MAX_SERIES: usize = 60;

pub fn project_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    let newest_sessions = context.store.select_sessions(&SessionFilter::default(), MAX_SESSIONS)?;
    let Some(newest_session) = newest_sessions.first() else {
        let mut document = Document::new("project");
        report::add_first_steps(&mut document);
        return Ok(PageContent::from_document(document).into());
    };
    let running: Vec<&SessionOverview> = newest_sessions
        .iter()
        .filter(|session| {
            session.state == speedwell_model::SessionState::Running && !session.is_killed
        })
        .collect();
    // If the history cannot be loaded, the page still shows the sessions.
    let history = context.project.load_history(&TrendQuery::default());
    let mut document = Document::new("project");
    let headline = project_headline(newest_session, running.len(), history.as_deref().ok());
    document.push(ReportBlock::Headline(format!("{}: {headline}", context.project.name)));
    // A running session may be killed without a trace in the store, so a page that shows one may go
    // stale although the store has not changed.
    let is_cacheable = running.is_empty();
    if !is_cacheable {
        document.push_heading(2, "Running");
        let owned: Vec<SessionOverview> = running.into_iter().cloned().collect();
        document.append_document(context.list_sessions(&owned));
    }
    match &history {
        Ok(history) => add_history(&mut document, context, history),
        Err(error) => document.push(ReportBlock::Note(format!("No history: {}.", error.message))),
    }
    document.push_heading(2, "Newest sessions");
    document.append_document(context.list_sessions(&newest_sessions));
    Ok(PageContent {
        links: project_links(context)?,
        choice: None,
        is_cacheable: is_cacheable && history.is_ok(),
        ..PageContent::from_document(document)
    }
    .into())
}

fn project_headline(
    newest: &SessionOverview,
    running: usize,
    history: Option<&ProjectHistory>,
) -> String {
    let summary = match history {
        Some(history) => OpenChanges::from_history(history).sentence(history),
        None => "history unavailable".to_owned(),
    };
    let measuring = match running {
        0 => "",
        _ => "; measurement in progress",
    };
    format!(
        "{summary}{measuring}. Newest session: @{}, {}.",
        newest.number,
        format_moment(newest.started_unix_ms)
    )
}

/// Adds the open changes, then all trends. Trends with urgent changes come first.
fn add_history(document: &mut Document, context: PageContext<'_>, history: &ProjectHistory) {
    let open = OpenChanges::from_history(history);
    if open.known + open.suspected > 0 {
        document.push_heading(2, "Open changes");
        let changes = open_changes_table(context, history);
        let tables = changes.blocks.into_iter();
        document.extend(tables.filter(|block| matches!(block, ReportBlock::Table(_))));
    }
    if history.series.is_empty() || history.series.len() > MAX_SERIES {
        return;
    }
    // The trend page lists the points.
    let trends = report::report_trend(history, TrendXAxis::Revision, 0, &context.report_options());
    let mut galleries = trends.blocks.into_iter();
    if let Some(gallery) = galleries.find(|block| matches!(block, ReportBlock::Gallery(_))) {
        document.push(gallery);
    }
}

fn project_links(context: PageContext<'_>) -> Result<Vec<PageLink>, HttpError> {
    let mut links =
        vec![PageLink::new(context.compare_href("@prev", "@latest"), "compare @prev with @latest")];
    let [branches, _] = context.store.branches_and_tags()?;
    for branch in branches.iter().take(4) {
        let trend = context.page_href(&format!("trend?branch={}", encode_segment(branch)));
        links.push(PageLink::new(context.branch_href(branch), format!("branch {branch}")));
        links.push(PageLink::new(trend, format!("trend of {branch}")));
    }
    Ok(links)
}

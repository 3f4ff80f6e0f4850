//! Builds `/PROJECT/sessions/ID`, the page that corresponds to `speedwell report @NUMBER`.

use crate::dashboard::page::content::{PageContent, PageContext, PageOutcome, PageResult};
use crate::http::HttpError;
use axum::http::StatusCode;
use speedwell_analysis::AnalysisFindings;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{SessionState, short_revision};
use speedwell_report::html::PageLink;
use speedwell_report::session::{StudyChoice, report_session};
use speedwell_report::{Document, ReportBlock};

/// Maximum number of runs that a page loads.
pub const MAX_RUNS: usize = 200_000;

/// Shows the session with this id.
pub fn session_page(context: PageContext<'_>) -> PageResult {
    let id = context.name;
    if id.starts_with('@') {
        return redirect_to_session(context, id);
    }
    context.query.check_names(&[])?;
    let overview = find_session(context, id)?;
    check_runs(&[&overview])?;
    let session = context.store.load_session(overview.number)?;
    let settings = (context.project.lookups.settings)(&[])?;
    let is_measured = overview.state == SessionState::Running && !overview.is_killed;
    let mut is_compared = false;
    let mark = |findings: &mut AnalysisFindings| {
        (context.project.lookups.mark_known)(findings, &[&session], context.store);
        is_compared = !findings.comparisons.is_empty();
    };
    let output = context.report_options();
    let study = StudyChoice::default();
    let report = report_session((None, &session), &study, &settings, &output, mark)?;
    let mut document = Document::new(report.report);
    if is_measured && !is_compared {
        let headline = format!("@{} has not ended: no verdict yet", overview.number);
        document.push(ReportBlock::Headline(headline));
    }
    document.append_document(report);
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(context.page_href("sessions"), "sessions"),
            PageLink::new(context.session_href(id), format!("@{}", overview.number)),
        ],
        links: session_links(context, &overview)?,
        sessions: vec![overview.number],
        is_cacheable: overview.state != SessionState::Running,
        ..PageContent::from_document(document)
    }
    .into())
}

/// Returns the session with an id, without its data.
pub fn find_session(context: PageContext<'_>, id: &str) -> Result<SessionOverview, HttpError> {
    let number = context.store.find_by_id(id)?;
    let found = match number {
        Some(number) => context.store.find_overview(number)?,
        None => None,
    };
    found.ok_or_else(|| {
        HttpError::not_found(format!("session '{id}' not found"))
            .with_hint("use its id, or @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or @base")
            .with_nearest(vec![(context.page_href("sessions"), "sessions".into())])
    })
}

/// Redirects from `/PROJECT/@REFERENCE` to the session that the reference names.
pub fn reference_page(context: PageContext<'_>) -> PageResult {
    redirect_to_session(context, context.name)
}

/// Redirects to the session that a reference names.
pub fn redirect_to_session(context: PageContext<'_>, reference: &str) -> PageResult {
    context.query.check_names(&[])?;
    let number = (context.project.lookups.session)(context.store, reference)
        .map_err(|error| HttpError::from_error(StatusCode::NOT_FOUND, &error))?;
    let overview = context
        .store
        .find_overview(number)?
        .ok_or_else(|| HttpError::not_found(format!("session '{reference}' no longer exists")))?;
    Ok(PageOutcome::Redirect(context.session_href(&overview.id)))
}

/// Rejects pages that would load too many runs.
pub fn check_runs(sessions: &[&SessionOverview]) -> Result<(), HttpError> {
    let runs: usize = sessions.iter().map(|session| session.runs).sum();
    if runs <= MAX_RUNS {
        return Ok(());
    }
    let message = format!("cannot analyse {runs} runs on a page: expected at most {MAX_RUNS}");
    Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        .with_hint("on the command line, 'speedwell report @NUMBER' shows more runs as text; with --filter, it also writes a page of selected cases"))
}

fn session_links(
    context: PageContext<'_>,
    overview: &SessionOverview,
) -> Result<Vec<PageLink>, HttpError> {
    let mut links = Vec::new();
    let reference = format!("@{}", overview.number);
    let [before, after] = context.store.neighbor_sessions(overview.number)?;
    if overview.state == SessionState::Running {
        let live = format!("{}/live", context.session_href(&overview.id));
        links.push(PageLink::new(live, "live"));
    }
    if let Some(number) = before {
        links.push(PageLink::new(context.numbered_href(number), format!("← @{number}")));
    }
    if let Some(number) = after {
        links.push(PageLink::new(context.numbered_href(number), format!("@{number} →")));
    }
    if let Some(number) = before {
        let earlier = format!("@{number}");
        let label = format!("compare with {earlier}");
        links.push(PageLink::new(context.compare_href(&earlier, &reference), label));
    }
    links.push(PageLink::new(
        context.page_href(&format!("compare?with={reference}")),
        "compare with ...",
    ));
    if let Some(origin) = &overview.origin {
        let label = format!("revision {}", short_revision(&origin.revision));
        links.push(PageLink::new(context.revision_href(&origin.revision), label));
        if let Some(branch) = &origin.branch {
            links.push(PageLink::new(context.branch_href(branch), format!("branch {branch}")));
        }
    }
    Ok(links)
}

//! `/PROJECT/sessions/ID`: the page of `speedwell report @NUMBER`.

use super::{PageContent, PageContext, PageOutcome};
use crate::refusal::PageError;
use axum::http::StatusCode;
use speedwell_analysis::AnalysisFindings;
use speedwell_model::{SessionState, short_revision};
use speedwell_report::html::PageLink;
use speedwell_report::session::{StudyChoice, report_session};
use speedwell_report::{Document, ReportBlock, mark_known};
use speedwell_results::store::SessionOverview;

/// Maximum number of runs on a page; more would take too long.
pub const MAX_RUNS: usize = 200_000;

/// Shows the session with this id.
pub fn session_page(visit: PageContext<'_>, id: &str) -> Result<PageOutcome, PageError> {
    if id.starts_with('@') {
        return redirect_to_session(visit, id);
    }
    visit.query.check_names(&[])?;
    let overview = find_session(visit, id)?;
    check_runs(&[&overview])?;
    let session = visit.store.load_session(overview.number)?;
    let settings = (visit.project.lookups.settings)(&[])?;
    let is_measured = overview.state == SessionState::Running && !overview.is_killed;
    let mut is_compared = false;
    let mark = |findings: &mut AnalysisFindings| {
        mark_known(findings, [&session], visit.store);
        is_compared = !findings.comparisons.is_empty();
    };
    let output = visit.report_options();
    let study = StudyChoice::default();
    let report = report_session((None, &session), &study, &settings, &output, mark)?;
    let mut document = Document::new(report.report);
    if is_measured && !is_compared {
        let words = format!("@{} has not ended: no verdict yet", overview.number);
        document.push(ReportBlock::Headline(words));
    }
    document.append_document(report);
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(visit.page_href("sessions"), "sessions"),
            PageLink::new(visit.session_href(id), format!("@{}", overview.number)),
        ],
        links: session_links(visit, &overview)?,
        sessions: vec![overview.number],
        is_lasting: overview.state != SessionState::Running,
        ..PageContent::from_document(document)
    }
    .into())
}

/// Returns the session with an id, without its data.
pub fn find_session(visit: PageContext<'_>, id: &str) -> Result<SessionOverview, PageError> {
    let number = visit.store.find_by_id(id)?;
    let found = match number {
        Some(number) => visit.store.find_overview(number)?,
        None => None,
    };
    found.ok_or_else(|| {
        PageError::not_found(format!("session '{id}' not found"))
            .with_hint("use its id, or @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or @base")
            .with_nearest(vec![(visit.page_href("sessions"), "sessions".into())])
    })
}

/// Redirects to the session that a reference names.
pub fn redirect_to_session(visit: PageContext<'_>, word: &str) -> Result<PageOutcome, PageError> {
    visit.query.check_names(&[])?;
    let number = (visit.project.lookups.session)(visit.store, word)
        .map_err(|error| PageError::from_error(StatusCode::NOT_FOUND, &error))?;
    let overview = visit
        .store
        .find_overview(number)?
        .ok_or_else(|| PageError::not_found(format!("session '{word}' no longer exists")))?;
    Ok(PageOutcome::Redirect(visit.session_href(&overview.id)))
}

/// Rejects pages that would take too long.
pub fn check_runs(sessions: &[&SessionOverview]) -> Result<(), PageError> {
    let runs: usize = sessions.iter().map(|session| session.runs).sum();
    if runs <= MAX_RUNS {
        return Ok(());
    }
    Err(PageError {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        ..PageError::bad_request(format!(
            "cannot analyse {runs} runs on a page: expected at most {MAX_RUNS}"
        ))
        .with_hint("speedwell report @NUMBER on the command line accepts more runs as text, or as a page with cases selected by --filter")
    })
}

fn session_links(
    visit: PageContext<'_>,
    known: &SessionOverview,
) -> Result<Vec<PageLink>, PageError> {
    let mut links = Vec::new();
    let reference = format!("@{}", known.number);
    let [before, after] = visit.store.neighbor_sessions(known.number)?;
    if known.state == SessionState::Running {
        let live = format!("{}/live", visit.session_href(&known.id));
        links.push(PageLink::new(live, "live"));
    }
    if let Some(number) = before {
        links.push(PageLink::new(
            visit.numbered_href(number),
            format!("← @{number}"),
        ));
    }
    if let Some(number) = after {
        links.push(PageLink::new(
            visit.numbered_href(number),
            format!("@{number} →"),
        ));
    }
    if let Some(number) = before {
        let earlier = format!("@{number}");
        let words = format!("compare with {earlier}");
        links.push(PageLink::new(
            visit.compare_href(&earlier, &reference),
            words,
        ));
    }
    links.push(PageLink::new(
        visit.page_href(&format!("compare?with={reference}")),
        "compare with ...",
    ));
    if let Some(origin) = &known.origin {
        let words = format!("revision {}", short_revision(&origin.revision));
        links.push(PageLink::new(visit.revision_href(&origin.revision), words));
        if let Some(branch) = &origin.branch {
            links.push(PageLink::new(
                visit.branch_href(branch),
                format!("branch {branch}"),
            ));
        }
    }
    Ok(links)
}

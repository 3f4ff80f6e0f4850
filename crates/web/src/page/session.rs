//! `/PROJECT/sessions/ID`: the page of `speedwell report @NUMBER`.

use super::{Outcome, Page, Visit};
use crate::refusal::Refusal;
use axum::http::StatusCode;
use speedwell_analysis::Findings;
use speedwell_model::{State, short_revision};
use speedwell_report::html::Link;
use speedwell_report::session::{StudyChoice, whole};
use speedwell_report::{Block, Document, mark_known};
use speedwell_results::store::Overview;

/// Maximum number of runs on a page; more would take too long.
pub const MOST_RUNS: usize = 200_000;

/// Shows the session with this id.
pub fn page(visit: Visit<'_>, id: &str) -> Result<Outcome, Refusal> {
    if id.starts_with('@') {
        return elsewhere(visit, id);
    }
    visit.query.check(&[])?;
    let known = known(visit, id)?;
    check_runs(&[&known])?;
    let session = visit.store.session(known.number)?;
    let settings = (visit.project.lookups.settings)(&[])?;
    let is_measured = known.state == State::Running && !known.is_killed;
    let mut is_compared = false;
    let mark = |findings: &mut Findings| {
        mark_known(findings, [&session], visit.store);
        is_compared = !findings.comparisons.is_empty();
    };
    let output = visit.output();
    let study = StudyChoice::default();
    let report = whole((None, &session), &study, &settings, &output, mark)?;
    let mut document = Document::new(report.report);
    if is_measured && !is_compared {
        let words = format!("@{} has not ended: no verdict yet", known.number);
        document.push(Block::Headline(words));
    }
    document.append(report);
    Ok(Page {
        crumbs: vec![
            Link::new(visit.href("sessions"), "sessions"),
            Link::new(visit.session(id), format!("@{}", known.number)),
        ],
        links: links(visit, &known)?,
        sessions: vec![known.number],
        is_lasting: known.state != State::Running,
        ..Page::of(document)
    }
    .into())
}

/// Returns the session with an id, without its data.
pub fn known(visit: Visit<'_>, id: &str) -> Result<Overview, Refusal> {
    let number = visit.store.number_of_id(id)?;
    let found = match number {
        Some(number) => visit.store.overview(number)?,
        None => None,
    };
    found.ok_or_else(|| {
        Refusal::missing(format!("there is no session '{id}'"))
            .hint("a session is named by its identity, or by @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or @base")
            .nearest(vec![(visit.href("sessions"), "sessions".into())])
    })
}

/// Redirects to the session that a reference names.
pub fn elsewhere(visit: Visit<'_>, word: &str) -> Result<Outcome, Refusal> {
    visit.query.check(&[])?;
    let found = (visit.project.lookups.session)(visit.store, word);
    let number = found.map_err(|error| Refusal::of(StatusCode::NOT_FOUND, &error))?;
    let overview = visit.store.overview(number)?;
    let overview = overview.ok_or_else(|| Refusal::missing(format!("'{word}' is gone")))?;
    Ok(Outcome::Elsewhere(visit.session(&overview.id)))
}

/// Rejects pages that would take too long.
pub fn check_runs(sessions: &[&Overview]) -> Result<(), Refusal> {
    let runs: usize = sessions.iter().map(|session| session.runs).sum();
    if runs <= MOST_RUNS {
        return Ok(());
    }
    Err(Refusal {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        ..Refusal::bad(format!(
            "{runs} runs are too many for a page; it analyses at most {MOST_RUNS}"
        ))
        .hint("speedwell report @NUMBER on the command line takes more, as text; as a page, with cases chosen by --filter")
    })
}

fn links(visit: Visit<'_>, known: &Overview) -> Result<Vec<Link>, Refusal> {
    let mut links = Vec::new();
    let own = format!("@{}", known.number);
    let [before, after] = visit.store.neighbours(known.number)?;
    if known.state == State::Running {
        let live = format!("{}/live", visit.session(&known.id));
        links.push(Link::new(live, "live"));
    }
    if let Some(number) = before {
        links.push(Link::new(visit.numbered(number), format!("← @{number}")));
    }
    if let Some(number) = after {
        links.push(Link::new(visit.numbered(number), format!("@{number} →")));
    }
    if let Some(number) = before {
        let earlier = format!("@{number}");
        let words = format!("compare with {earlier}");
        links.push(Link::new(visit.compare(&earlier, &own), words));
    }
    links.push(Link::new(
        visit.href(&format!("compare?with={own}")),
        "compare with ...",
    ));
    if let Some(origin) = &known.origin {
        let words = format!("revision {}", short_revision(&origin.revision));
        links.push(Link::new(visit.revision(&origin.revision), words));
        if let Some(branch) = &origin.branch {
            links.push(Link::new(visit.branch(branch), format!("branch {branch}")));
        }
    }
    Ok(links)
}

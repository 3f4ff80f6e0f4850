//! Builds `/PROJECT/sessions`, the filtered list of sessions, and `/PROJECT/sessions/ID`, the page
//! that corresponds to `speedwell report @NUMBER`.

use crate::dashboard::CommandLookups;
use crate::dashboard::page::{PageContent, PageContext, PageResult, link_column, named_options};
use crate::dashboard::site::unix_ms;
use crate::http::HttpError;
use axum::http::StatusCode;
use speedwell_analysis::AnalysisFindings;
use speedwell_config::experiment::Experiment;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{Session, SessionState};
use speedwell_report::html::{PageForm, PageLink};
use speedwell_report::session::report_session;
use speedwell_report::{Document, ReportBlock, StudyChoice, add_first_steps};
use speedwell_store::{SessionFilter, Store};

/// Maximum number of runs that a page loads.
pub const MAX_RUNS: usize = 200_000;

/// Shows the session with this id, or redirects to the session that a reference names.
pub fn session_page(context: PageContext<'_>) -> PageResult {
    let id = context.name;
    if id.starts_with('@') {
        return redirect_to_session(context, id);
    }
    context.query.check_names(&["sort"])?;
    let overview = find_session(context, id)?;
    check_runs(overview.runs)?;
    let session = context.store.load_session(overview.number)?;
    let settings = (context.project.lookups.settings)(&[])?;
    let mut is_compared = false;
    let mark = |findings: &mut AnalysisFindings| {
        (context.project.lookups.mark_known)(findings, &[&session], context.store);
        is_compared = !findings.comparisons.is_empty();
    };
    let output = context.report_options();
    let study = StudyChoice::default();
    let experiment = Experiment::of_session(&session)?;
    let measured = (None, &session, experiment.as_deref());
    let report = report_session(measured, &study, &settings, &output, mark)?;
    let mut document = Document::new(report.report);
    if overview.is_running() && !is_compared {
        let headline = format!("@{} has not ended: no verdict yet", overview.number);
        document.push(ReportBlock::Headline(headline));
    }
    document.append_document(report);
    link_results(context, &mut document, &[&session])?;
    let own_href = context.session_href(id);
    Ok(PageContent {
        sort_link: Some(sort_rows(context, &own_href, &mut document)?),
        crumbs: context.crumbs("sessions", own_href, format!("@{}", overview.number)),
        links: session_links(context, &overview)?,
        sessions: vec![overview.number],
        is_cacheable: overview.state != SessionState::Running,
        ..PageContent::from_document(document)
    })
}

/// Links the sessions at the top of a page, with their revisions, branches and machines, and the
/// cases in tables to their trends.
pub fn link_results(
    context: PageContext<'_>,
    document: &mut Document,
    sessions: &[&Session],
) -> Result<(), HttpError> {
    for line in &mut document.session_lines {
        let Some(session) = sessions.iter().find(|session| session.id == line.id) else { continue };
        line.name.link = Some(context.session_href(&session.id));
        if let Some(origin) = &session.origin {
            line.revision.link = Some(context.revision_href(&origin.revision));
            line.branch.link = origin.branch.as_ref().map(|branch| context.branch_href(branch));
        }
        let machine = session
            .number
            .map(|number| context.store.session_machine(number))
            .transpose()?
            .flatten();
        line.machine.link = machine.map(|number| context.page_href(&format!("machines/{number}")));
    }
    // Results of unknown revisions have no trend.
    if sessions.iter().any(|session| session.origin.is_some()) {
        for table in ["changes", "summaries"] {
            link_column(document, table, "case", |case| Some(context.trend_href(case.as_str()?)));
        }
    }
    Ok(())
}

/// Sorts the rows of comparisons by their change if the query asks for it. Returns the address and
/// the text of the link to the other order. `own_href` is the address of the page without a query.
pub fn sort_rows(
    context: PageContext<'_>,
    own_href: &str,
    document: &mut Document,
) -> Result<(String, String), HttpError> {
    let (value, text) = match context.query.get("sort") {
        None => (Some("change"), "sort by change"),
        Some("change") => {
            document.for_each_table(&mut |table| {
                if table.name == "changes" {
                    table.sort_by("change_shown", true);
                }
            });
            (None, "sort as measured")
        }
        Some(other) => {
            let message = format!("unknown order '{other}'");
            return Err(HttpError::bad_request(message).with_hint("use sort=change"));
        }
    };
    Ok((format!("{own_href}{}", context.query.with_value("sort", value)), text.to_owned()))
}

/// Returns the session with an id, without its data.
pub fn find_session(context: PageContext<'_>, id: &str) -> Result<SessionOverview, HttpError> {
    let number = context.store.find_by_id(id)?;
    let found = number.map(|number| context.store.find_overview(number)).transpose()?.flatten();
    found.ok_or_else(|| {
        HttpError::not_found(format!("session '{id}' not found"))
            .with_hint("use its id, or @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or @base")
            .with_nearest(vec![(context.page_href("sessions"), "sessions".into())])
    })
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
    Ok(PageContent::redirect_to(context.session_href(&overview.id)))
}

/// Returns a reference without its variant and filter: `@12` for `@12[old]::parse`.
pub fn bare_reference(reference: &str) -> &str {
    let without_filter = reference.split("::").next().unwrap_or_default();
    without_filter.split('[').next().unwrap_or_default()
}

/// Returns the number of runs of the sessions that these references name, without loading the runs.
pub fn count_runs(
    lookups: &CommandLookups,
    store: &Store,
    references: &[String],
) -> Result<usize, HttpError> {
    let mut runs = 0;
    for reference in references {
        let number = (lookups.session)(store, bare_reference(reference))
            .map_err(|error| HttpError::from_error(StatusCode::NOT_FOUND, &error))?;
        runs += store.find_overview(number)?.map_or(0, |session| session.runs);
    }
    Ok(runs)
}

/// Rejects pages that would load too many runs.
pub fn check_runs(runs: usize) -> Result<(), HttpError> {
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
    if let Some(number) = base_session(context, overview)? {
        let base = format!("@{number}");
        let label = format!("baseline: {base}");
        links.push(PageLink::new(context.compare_href(&base, &reference), label));
    }
    if let Some(number) = before {
        let earlier = format!("@{number}");
        let label = format!("← previous comparable: {earlier}");
        links.push(PageLink::new(context.numbered_href(number), label));
        let label = format!("compare with {earlier}");
        links.push(PageLink::new(context.compare_href(&earlier, &reference), label));
    }
    if let Some(number) = after {
        let label = format!("next comparable: @{number} →");
        links.push(PageLink::new(context.numbered_href(number), label));
    }
    links.push(context.page_link(&format!("compare?with={reference}"), "compare with ..."));
    Ok(links)
}

/// Returns the newest session that measured the base of a session's revision on the same machine,
/// if it has a case in common with the session.
fn base_session(
    context: PageContext<'_>,
    overview: &SessionOverview,
) -> Result<Option<i64>, HttpError> {
    let Some(base) = overview.origin.as_ref().and_then(|origin| origin.base.clone()) else {
        return Ok(None);
    };
    let Some(machine) = context.store.session_machine(overview.number)? else { return Ok(None) };
    let filter =
        SessionFilter { revision: Some(base), machine: Some(machine), ..SessionFilter::default() };
    let numbers = context.store.selected_numbers(&filter, 2)?;
    let Some(number) = numbers.into_iter().find(|number| *number != overview.number) else {
        return Ok(None);
    };
    let is_comparable = context.store.have_common_case(number, overview.number)?;
    Ok(is_comparable.then_some(number))
}

/// Sessions per page.
const SESSIONS_PER_PAGE: usize = 50;

/// Maximum number of sessions to count.
const MAX_COUNTED: usize = 1_000;

/// Query keys. `before` is for paging.
const FILTER_KEYS: [&str; 8] =
    ["branch", "revision", "machine", "tag", "state", "variant", "benchmark", "pull"];

pub fn sessions_page(context: PageContext<'_>) -> PageResult {
    let query_keys = [&FILTER_KEYS[..], &["before"]].concat();
    context.query.check_names(&query_keys)?;
    let filter = session_filter(context)?;
    let mut sessions = context.store.select_sessions(&filter, SESSIONS_PER_PAGE + 1)?;
    let has_more = sessions.len() > SESSIONS_PER_PAGE;
    sessions.truncate(SESSIONS_PER_PAGE);
    let mut document = Document::new("sessions");
    let is_filtered = query_keys.iter().any(|name| context.query.get(name).is_some());
    match (sessions.is_empty(), is_filtered) {
        (true, true) => document.push(ReportBlock::Headline("no sessions match".into())),
        (true, false) => add_first_steps(&mut document),
        (false, _) => document.push(ReportBlock::Headline(count_headline(context, &filter)?)),
    }
    if !sessions.is_empty() {
        document.append_document(context.list_sessions(&sessions, Some(unix_ms())));
    }
    let mut links = Vec::new();
    if context.query.get("before").is_some() {
        let newest =
            context.page_href(&format!("sessions{}", context.query.with_value("before", None)));
        links.push(PageLink::new(newest, "newest sessions"));
    }
    if let Some(last) = sessions.last().filter(|_| has_more) {
        let before = last.number.to_string();
        let query = context.query.with_value("before", Some(&before));
        links.push(context.page_link(&format!("sessions{query}"), "earlier sessions"));
    }
    Ok(PageContent {
        crumbs: vec![context.page_link("sessions", "sessions")],
        links,
        choice: (sessions.len() > 1).then(|| context.row_choice()),
        filters: Some(filter_form(context)?),
        sessions: sessions.iter().map(|session| session.number).collect(),
        ..PageContent::from_document(document)
    })
}

/// Builds the filter from the query.
fn session_filter(context: PageContext<'_>) -> Result<SessionFilter, HttpError> {
    let value_of = |name| context.query.get(name).map(str::to_owned);
    Ok(SessionFilter {
        before: context.query.get_number("before")?,
        branch: value_of("branch"),
        revision: value_of("revision"),
        state: value_of("state"),
        tag: value_of("tag").map(|tag| tag.trim_start_matches('@').to_owned()),
        machine: context.query.get_number("machine")?,
        benchmark: value_of("benchmark"),
        variant: value_of("variant"),
        pull: value_of("pull"),
        ..SessionFilter::default()
    })
}

fn count_headline(context: PageContext<'_>, filter: &SessionFilter) -> Result<String, HttpError> {
    let all_pages = SessionFilter { before: None, ..filter.clone() };
    Ok(match context.store.count_sessions_up_to(&all_pages, MAX_COUNTED + 1)? {
        1 => "1 session".to_owned(),
        count if count > MAX_COUNTED => "more than 1,000 sessions".to_owned(),
        count => format!("{count} sessions"),
    })
}

fn filter_form(context: PageContext<'_>) -> Result<PageForm, HttpError> {
    let [branches, tags] = context.store.branches_and_tags()?;
    let states = ["complete", "running", "interrupted", "imported"];
    let field = |name, options| context.query_field(name, "any", options);
    let fields = vec![
        field("branch", named_options("any", branches)),
        field("revision", Vec::new()),
        field("machine", context.machine_options()?),
        field("tag", named_options("any", tags)),
        field("state", named_options("any", states)),
        field("variant", Vec::new()),
        field("benchmark", Vec::new()),
        field("pull", Vec::new()),
    ];
    Ok(PageForm {
        button: "Filter".into(),
        is_always_open: true,
        set: context.set_filters("sessions", &FILTER_KEYS),
        ..context.filter_form("sessions", fields)
    })
}

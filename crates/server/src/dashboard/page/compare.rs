//! Builds `/PROJECT/compare`, the page that corresponds to `speedwell compare` for two stored
//! sessions.

use crate::dashboard::ComparisonSource;
use crate::dashboard::address::encode_path;
use crate::dashboard::page::session::{
    bare_reference, check_runs, count_runs, link_results, redirect_to_session, sort_rows,
};
use crate::dashboard::page::{PageContent, PageContext, PageResult, named_options};
use crate::http::HttpError;
use axum::http::StatusCode;
use speedwell_config::experiment::Experiment;
use speedwell_model::SessionState;
use speedwell_report::html::{PageForm, PageLink};
use speedwell_report::sources::{self, LabelledSession};
use speedwell_report::{Document, ReportBlock, StudyChoice};
use speedwell_store::SessionFilter;

const COMPARISON_OPTIONS: [&str; 3] = ["threshold", "method", "correct"];

pub fn compare_page(context: PageContext<'_>) -> PageResult {
    let query = context.query;
    query.check_names(&[&["base", "with", "of", "sort"][..], &COMPARISON_OPTIONS].concat())?;
    let chosen: Vec<&str> = query.get_all("of").collect();
    if let [first_reference, second_reference] = chosen[..] {
        return redirect_ordered(context, first_reference, second_reference);
    }
    let references: Vec<String> =
        [query.get("base"), query.get("with")].into_iter().flatten().map(str::to_owned).collect();
    if query.get("base").is_none() {
        let hint = match chosen.len() {
            0 => "",
            1 => "Only one session was selected",
            _ => "More than two sessions were selected",
        };
        return choose_page(context, hint);
    }
    for reference in &references {
        check_reference(reference)?;
    }
    comparison_page(context, &references)
}

/// Redirects to the comparison of two selected sessions, with the older session as the baseline. If
/// a reference is not a number, redirects to the first reference's session.
fn redirect_ordered(
    context: PageContext<'_>,
    first_reference: &str,
    second_reference: &str,
) -> PageResult {
    let number = |reference: &str| reference.trim_start_matches('@').parse::<i64>().ok();
    let (Some(first), Some(second)) = (number(first_reference), number(second_reference)) else {
        return redirect_to_session(context, first_reference);
    };
    let (base, with) = (first.min(second), first.max(second));
    let (base, with) = (format!("@{base}"), format!("@{with}"));
    Ok(PageContent::redirect_to(context.compare_href(&base, &with)))
}

/// Checks that a reference begins with `@`. Other references would name files.
fn check_reference(reference: &str) -> Result<(), HttpError> {
    if reference.starts_with('@') {
        return Ok(());
    }
    Err(
        HttpError::bad_request(format!("cannot resolve '{reference}': expected a stored session")).with_hint(
            "use @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or @base; append [VARIANT] to select a variant",
        ),
    )
}

fn comparison_page(context: PageContext<'_>, references: &[String]) -> PageResult {
    let lookups = &context.project.lookups;
    let bad_request = |error: anyhow::Error| HttpError::from_error(StatusCode::BAD_REQUEST, &error);
    let options = COMPARISON_OPTIONS.map(|name| (name, context.query.get(name)));
    let options: Vec<(&str, &str)> =
        options.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let settings = (lookups.settings)(&options).map_err(bad_request)?;
    check_runs(count_runs(lookups, context.store, references)?)?;
    let resolved = (lookups.sources)(context.store, references).map_err(bad_request)?;
    let sources: Vec<LabelledSession<'_>> = resolved
        .iter()
        .map(|source| (source.label.clone(), &source.session, source.variant.clone()))
        .collect();
    let mut findings = sources::compare_sources(&sources, &settings).map_err(bad_request)?;
    let sessions: Vec<_> = resolved.iter().map(|source| &source.session).collect();
    (lookups.mark_known)(&mut findings, &sessions, context.store);
    let study = StudyChoice::default();
    let output = context.report_options();
    let first = sources.first();
    let experiment = first.map_or(Ok(None), |(_, session, _)| Experiment::of_session(session))?;
    let reported = (sources.as_slice(), experiment.as_deref());
    let mut document = sources::report_sources(reported, &findings, &study, &settings, &output)?;
    if let Err(error) = sources::check_rows(&findings, &sources) {
        let error = HttpError::from_error(StatusCode::OK, &error);
        document.push(ReportBlock::Warning(error.message));
        document.extend(error.hints.into_iter().map(ReportBlock::Note));
    }
    let resolution_notes = resolved.iter().filter_map(|source| source.resolved_as.clone());
    document.extend(resolution_notes.map(ReportBlock::Note));
    link_results(context, &mut document, &sessions)?;
    let sort_link = sort_rows(context, &context.page_href("compare"), &mut document)?;
    let own_href = context.page_href(&format!("compare{}", context.query.to_query_string()));

    let is_running = |source: &ComparisonSource| source.session.state == SessionState::Running;
    let numbers = resolved.iter().filter_map(|source| source.session.number);
    let mut sessions: Vec<i64> = numbers.collect();
    sessions.dedup();
    Ok(PageContent {
        sort_link: Some(sort_link),
        crumbs: context.crumbs("compare", own_href, references.join(" with ")),
        links: comparison_links(context, references),
        filters: Some(compare_form(context)),
        sessions,
        // `@base`, `@base:main` and `@rev:REVISION` also depend on the repository, so their meaning
        // may change while the store does not.
        is_cacheable: !resolved.iter().any(is_running)
            && !references.iter().any(|reference| depends_on_git(reference)),
        ..PageContent::from_document(document)
    })
}

/// Returns links to the comparison with swapped sides, and to both sessions.
fn comparison_links(context: PageContext<'_>, references: &[String]) -> Vec<PageLink> {
    let [base, with] = references else {
        return Vec::new();
    };
    vec![
        PageLink::new(context.compare_href(with, base), "swap"),
        context.page_link(&encode_path(bare_reference(base)), format!("baseline: {base}")),
        context.page_link(&encode_path(bare_reference(with)), with),
    ]
}

/// Whether a reference may resolve to another session after the repository changes.
fn depends_on_git(reference: &str) -> bool {
    reference.contains(':') || reference.starts_with("@base")
}

/// Shows the newest sessions, so that the user can choose two.
fn choose_page(context: PageContext<'_>, hint: &str) -> PageResult {
    let newest = context.store.select_sessions(&SessionFilter::default(), 20)?;
    let mut document = Document::new("compare");
    document.push(ReportBlock::Headline("select two sessions to compare".into()));
    if !hint.is_empty() {
        document.push(ReportBlock::Paragraph(format!("{hint}.")));
    }
    if !newest.is_empty() {
        document.append_document(context.list_sessions(&newest, None));
    }
    Ok(PageContent {
        crumbs: vec![context.page_link("compare", "compare")],
        filters: Some(compare_form(context)),
        choice: Some(context.row_choice()),
        ..PageContent::from_document(document)
    })
}

fn compare_form(context: PageContext<'_>) -> PageForm {
    let field = |name, placeholder, names: &[&str]| {
        let options = if names.is_empty() {
            Vec::new()
        } else {
            named_options("default", names.iter().copied())
        };
        context.query_field(name, placeholder, options)
    };
    let fields = vec![
        field("base", "@prev", &[]),
        field("with", "@latest", &[]),
        field("threshold", "e.g. 2% (smaller changes count as 'same')", &[]),
        field("method", "", &["rank", "welch", "mann-whitney", "bootstrap"]),
        field("correct", "", &["bh", "holm", "none"]),
    ];
    PageForm {
        title: "Compare".into(),
        button: "Compare".into(),
        ..context.filter_form("compare", fields)
    }
}

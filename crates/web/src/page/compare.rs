//! `/PROJECT/compare`: the page of `speedwell compare` for two stored sessions.

use super::session::{check_runs, redirect_to_session};
use super::{PageContent, PageContext, PageOutcome};
use crate::refusal::PageError;
use axum::http::StatusCode;
use speedwell_model::SessionState;
use speedwell_report::html::{FormField, PageForm, PageLink};
use speedwell_report::session::StudyChoice;
use speedwell_report::sources::{self, LabelledSession};
use speedwell_report::{Document, ReportBlock, mark_known};
use speedwell_results::store::{SessionFilter, SessionOverview};

const COMPARISON_OPTIONS: [&str; 3] = ["threshold", "method", "correct"];

pub fn compare_page(visit: PageContext<'_>) -> Result<PageOutcome, PageError> {
    let query = visit.query;
    query.check_names(&[
        "base",
        "with",
        "of",
        COMPARISON_OPTIONS[0],
        COMPARISON_OPTIONS[1],
        COMPARISON_OPTIONS[2],
    ])?;
    let chosen: Vec<&str> = query.get_all("of").collect();
    if let [one, other] = chosen[..] {
        return redirect_ordered(visit, one, other);
    }
    let words: Vec<String> = [query.get("base"), query.get("with")]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    if query.get("base").is_none() {
        let hint = match chosen.len() {
            0 => "",
            1 => "Only one session was selected",
            _ => "More than two sessions were selected",
        };
        return choose_page(visit, hint).map(PageOutcome::from);
    }
    for word in &words {
        check_reference(word)?;
    }
    comparison_page(visit, &words).map(PageOutcome::from)
}

/// Compares two selected sessions; the older one is the baseline.
fn redirect_ordered(
    visit: PageContext<'_>,
    one: &str,
    other: &str,
) -> Result<PageOutcome, PageError> {
    let number = |word: &str| word.trim_start_matches('@').parse::<i64>().ok();
    let (Some(first), Some(second)) = (number(one), number(other)) else {
        return redirect_to_session(visit, one);
    };
    let (base, with) = (first.min(second), first.max(second));
    let (base, with) = (format!("@{base}"), format!("@{with}"));
    Ok(PageOutcome::Redirect(visit.compare_href(&base, &with)))
}

/// Checks that a word names a stored session, optionally with a variant or filter, and not a file.
fn check_reference(word: &str) -> Result<(), PageError> {
    if word.starts_with('@') {
        return Ok(());
    }
    Err(
        PageError::bad_request(format!("cannot resolve '{word}': expected a stored session")).with_hint(
            "use @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or @base; append [VARIANT] to select a variant",
        ),
    )
}

fn comparison_page(visit: PageContext<'_>, words: &[String]) -> Result<PageContent, PageError> {
    let lookups = &visit.project.lookups;
    let bad = |error: anyhow::Error| PageError::from_error(StatusCode::BAD_REQUEST, &error);
    let options = COMPARISON_OPTIONS.map(|name| (name, visit.query.get(name)));
    let options: Vec<(&str, &str)> = options
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let settings = (lookups.settings)(&options).map_err(bad)?;
    check_size(visit, words)?;
    let found = (lookups.sources)(visit.store, words).map_err(bad)?;
    let sources: Vec<LabelledSession<'_>> = found
        .iter()
        .map(|source| {
            (
                source.label.clone(),
                &source.session,
                source.variant.clone(),
            )
        })
        .collect();
    let mut findings = sources::compare_sources(&sources, &settings).map_err(bad)?;
    let sessions = found.iter().map(|source| &source.session);
    mark_known(&mut findings, sessions, visit.store);
    let study = StudyChoice::default();
    let output = visit.report_options();
    let mut document = sources::report_sources(&sources, &findings, &study, &settings, &output)?;
    if let Err(error) = sources::check_rows(&findings, &sources) {
        let refusal = PageError::from_error(StatusCode::OK, &error);
        document.push(ReportBlock::Warning(refusal.message));
        document.extend(refusal.hints.into_iter().map(ReportBlock::Note));
    }
    let taken_for = found.iter().filter_map(|source| source.resolved_as.clone());
    document.extend(taken_for.map(ReportBlock::Note));
    let own_href = visit.page_href(&format!("compare{}", visit.query.to_query_string()));
    let mut links = Vec::new();
    if let [base, with] = words {
        links.push(PageLink::new(visit.compare_href(with, base), "swap"));
        links.push(PageLink::new(visit.page_href(&reference_path(base)), base));
        links.push(PageLink::new(visit.page_href(&reference_path(with)), with));
    }
    let is_running =
        |source: &crate::ComparisonSource| source.session.state == SessionState::Running;
    let numbers = found.iter().filter_map(|source| source.session.number);
    let mut sessions: Vec<i64> = numbers.collect();
    sessions.dedup();
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(visit.page_href("compare"), "compare"),
            PageLink::new(own_href, words.join(" with ")),
        ],
        links,
        filters: Some(compare_form(visit)),
        sessions,
        // `@base`, `@base:main` and `@rev:REVISION` also depend on the repository, which changes
        // independently of the store.
        is_lasting: !found.iter().any(is_running) && !words.iter().any(|word| depends_on_git(word)),
        ..PageContent::from_document(document)
    })
}

/// Whether a reference may name another session although the store is unchanged.
fn depends_on_git(word: &str) -> bool {
    word.contains(':') || word.starts_with("@base")
}

/// Encodes the session of a reference as a path, without its variant and filter.
fn reference_path(word: &str) -> String {
    let end = word.find("::").unwrap_or(word.len());
    let end = word[..end].find('[').unwrap_or(end);
    crate::link::encode_path(&word[..end])
}

/// Rejects comparisons that would take too long, before loading any run.
fn check_size(visit: PageContext<'_>, words: &[String]) -> Result<(), PageError> {
    let mut overviews: Vec<SessionOverview> = Vec::new();
    for word in words {
        let without_filter = word.split("::").next().unwrap_or_default();
        let reference = without_filter.split('[').next().unwrap_or_default();
        let number = (visit.project.lookups.session)(visit.store, reference)
            .map_err(|error| PageError::from_error(StatusCode::NOT_FOUND, &error))?;
        overviews.extend(visit.store.find_overview(number)?);
    }
    check_runs(&overviews.iter().collect::<Vec<_>>())
}

/// Shows the newest sessions to choose two from.
fn choose_page(visit: PageContext<'_>, hint: &str) -> Result<PageContent, PageError> {
    let found = visit.store.select_sessions(&SessionFilter::default(), 20)?;
    let mut document = Document::new("compare");
    document.push(ReportBlock::Headline(
        "select two sessions to compare".into(),
    ));
    if !hint.is_empty() {
        document.push(ReportBlock::Paragraph(format!("{hint}.")));
    }
    if !found.is_empty() {
        document.append_document(visit.list_sessions(&found));
    }
    Ok(PageContent {
        crumbs: vec![PageLink::new(visit.page_href("compare"), "compare")],
        filters: Some(compare_form(visit)),
        choice: visit.row_choice(),
        ..PageContent::from_document(document)
    })
}

fn compare_form(visit: PageContext<'_>) -> PageForm {
    let value = |name| visit.query.get(name).unwrap_or_default().to_owned();
    let field = |name: &'static str, placeholder: &str| FormField {
        name,
        label: name.to_owned(),
        value: value(name),
        placeholder: placeholder.to_owned(),
        options: Vec::new(),
        ..FormField::default()
    };
    let options = |first: &str, names: &[&str]| {
        let named = names
            .iter()
            .map(|name| ((*name).to_owned(), (*name).to_owned()));
        let usual = std::iter::once((String::new(), first.to_owned()));
        usual.chain(named).collect::<Vec<_>>()
    };
    PageForm {
        action: visit.page_href("compare"),
        title: "Compare".into(),
        button: "Compare".into(),
        fields: vec![
            field("base", "@prev"),
            field("with", "@latest"),
            field("threshold", "2 % for 'same'"),
            FormField {
                options: options("default", &["rank", "welch", "mann-whitney", "bootstrap"]),
                ..field("method", "")
            },
            FormField {
                options: options("default", &["bh", "holm", "none"]),
                ..field("correct", "")
            },
        ],
        set: Vec::new(),
    }
}

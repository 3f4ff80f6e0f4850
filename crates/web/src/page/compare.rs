//! `/PROJECT/compare`: the page of `speedwell compare` for two stored sessions.

use super::session::{check_runs, elsewhere};
use super::{Outcome, Page, Visit};
use crate::refusal::Refusal;
use axum::http::StatusCode;
use speedwell_model::State;
use speedwell_report::html::{Field, Form, Link};
use speedwell_report::session::StudyChoice;
use speedwell_report::sources::{self, Labelled};
use speedwell_report::{Block, Document, mark_known};
use speedwell_results::store::{Overview, SessionFilter};

const OPTIONS: [&str; 3] = ["threshold", "method", "correct"];

pub fn page(visit: Visit<'_>) -> Result<Outcome, Refusal> {
    let query = visit.query;
    query.check(&["base", "with", "of", OPTIONS[0], OPTIONS[1], OPTIONS[2]])?;
    let chosen: Vec<&str> = query.all("of").collect();
    if let [one, other] = chosen[..] {
        return ordered(visit, one, other);
    }
    let words: Vec<String> = [query.get("base"), query.get("with")]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    if query.get("base").is_none() {
        let hint = match chosen.len() {
            0 => "",
            1 => "one session is nothing to compare",
            _ => "more than two sessions were chosen",
        };
        return choose(visit, hint).map(Outcome::from);
    }
    for word in &words {
        check(word)?;
    }
    compared(visit, &words).map(Outcome::from)
}

/// Compares two selected sessions; the older one is the baseline.
fn ordered(visit: Visit<'_>, one: &str, other: &str) -> Result<Outcome, Refusal> {
    let number = |word: &str| word.trim_start_matches('@').parse::<i64>().ok();
    let (Some(first), Some(second)) = (number(one), number(other)) else {
        return elsewhere(visit, one);
    };
    let (base, with) = (first.min(second), first.max(second));
    let (base, with) = (format!("@{base}"), format!("@{with}"));
    Ok(Outcome::Elsewhere(visit.compare(&base, &with)))
}

/// Checks that a word names a stored session, optionally with a variant or filter, and not a file.
fn check(word: &str) -> Result<(), Refusal> {
    if word.starts_with('@') {
        return Ok(());
    }
    Err(
        Refusal::bad(format!("'{word}' names no stored session")).hint(
            "use @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or @base; [VARIANT] behind it picks a variant",
        ),
    )
}

fn compared(visit: Visit<'_>, words: &[String]) -> Result<Page, Refusal> {
    let lookups = &visit.project.lookups;
    let bad = |error: anyhow::Error| Refusal::of(StatusCode::BAD_REQUEST, &error);
    let options = OPTIONS.map(|name| (name, visit.query.get(name)));
    let options: Vec<(&str, &str)> = options
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let settings = (lookups.settings)(&options).map_err(bad)?;
    check_size(visit, words)?;
    let found = (lookups.sources)(visit.store, words);
    let found = found.map_err(bad)?;
    let sources: Vec<Labelled<'_>> = found
        .iter()
        .map(|source| {
            (
                source.label.clone(),
                &source.session,
                source.variant.clone(),
            )
        })
        .collect();
    let mut findings = sources::compare(&sources, &settings).map_err(bad)?;
    let sessions = found.iter().map(|source| &source.session);
    mark_known(&mut findings, sessions, visit.store);
    let study = StudyChoice::default();
    let output = visit.output();
    let mut document = sources::document(&sources, &findings, &study, &settings, &output)?;
    if let Err(error) = sources::check(&findings, &sources) {
        let refusal = Refusal::of(StatusCode::OK, &error);
        document.push(Block::Warning(refusal.words));
        document.extend(refusal.hints.into_iter().map(Block::Note));
    }
    let taken_for = found.iter().filter_map(|source| source.taken_for.clone());
    document.extend(taken_for.map(Block::Note));
    let own = visit.href(&format!("compare{}", visit.query.text()));
    let mut links = Vec::new();
    if let [base, with] = words {
        links.push(Link::new(visit.compare(with, base), "swap"));
        links.push(Link::new(visit.href(&reference(base)), base));
        links.push(Link::new(visit.href(&reference(with)), with));
    }
    let is_running = |source: &crate::Source| source.session.state == State::Running;
    let numbers = found.iter().filter_map(|source| source.session.number);
    let mut sessions: Vec<i64> = numbers.collect();
    sessions.dedup();
    Ok(Page {
        crumbs: vec![
            Link::new(visit.href("compare"), "compare"),
            Link::new(own, words.join(" with ")),
        ],
        links,
        filters: Some(form(visit)),
        sessions,
        // `@base`, `@base:main` and `@rev:REVISION` also depend on the repository, which changes independently of the store.
        is_lasting: !found.iter().any(is_running) && !words.iter().any(|word| depends_on_git(word)),
        ..Page::of(document)
    })
}

/// Whether a reference may name another session although the store is unchanged.
fn depends_on_git(word: &str) -> bool {
    word.contains(':') || word.starts_with("@base")
}

/// Encodes the session of a reference as a path, without its variant and filter.
fn reference(word: &str) -> String {
    let end = word.find("::").unwrap_or(word.len());
    let end = word[..end].find('[').unwrap_or(end);
    crate::link::encoded_path(&word[..end])
}

/// Rejects comparisons that would take too long, before loading any run.
fn check_size(visit: Visit<'_>, words: &[String]) -> Result<(), Refusal> {
    let mut overviews: Vec<Overview> = Vec::new();
    for word in words {
        let plain = word.split("::").next().unwrap_or_default();
        let plain = plain.split('[').next().unwrap_or_default();
        let found = (visit.project.lookups.session)(visit.store, plain);
        let number = found.map_err(|error| Refusal::of(StatusCode::NOT_FOUND, &error))?;
        overviews.extend(visit.store.overview(number)?);
    }
    check_runs(&overviews.iter().collect::<Vec<_>>())
}

/// Shows the newest sessions to choose two from.
fn choose(visit: Visit<'_>, hint: &str) -> Result<Page, Refusal> {
    let found = visit.store.selected(&SessionFilter::default(), 20)?;
    let mut document = Document::new("compare");
    document.push(Block::Headline("choose two sessions to compare".into()));
    if !hint.is_empty() {
        document.push(Block::Paragraph(format!("{hint}.")));
    }
    if !found.is_empty() {
        document.append(visit.list(&found));
    }
    Ok(Page {
        crumbs: vec![Link::new(visit.href("compare"), "compare")],
        filters: Some(form(visit)),
        choice: visit.choice(),
        ..Page::of(document)
    })
}

fn form(visit: Visit<'_>) -> Form {
    let value = |name| visit.query.get(name).unwrap_or_default().to_owned();
    let field = |name: &'static str, placeholder: &str| Field {
        name,
        label: name.to_owned(),
        value: value(name),
        placeholder: placeholder.to_owned(),
        options: Vec::new(),
        ..Field::default()
    };
    let options = |first: &str, names: &[&str]| {
        let named = names
            .iter()
            .map(|name| ((*name).to_owned(), (*name).to_owned()));
        let usual = std::iter::once((String::new(), first.to_owned()));
        usual.chain(named).collect::<Vec<_>>()
    };
    Form {
        action: visit.href("compare"),
        title: "Compare".into(),
        button: "Compare".into(),
        fields: vec![
            field("base", "@prev"),
            field("with", "@latest"),
            field("threshold", "2 % for 'same'"),
            Field {
                options: options(
                    "the usual one",
                    &["rank", "welch", "mann-whitney", "bootstrap"],
                ),
                ..field("method", "")
            },
            Field {
                options: options("the usual one", &["bh", "holm", "none"]),
                ..field("correct", "")
            },
        ],
        set: Vec::new(),
    }
}

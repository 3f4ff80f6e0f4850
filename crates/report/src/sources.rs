//! The comparison of results that exist, from one session or several: what `speedwell compare` prints of stored sessions and
//! files, and what a page of the server shows.
//!
//! Decides what is compared with what and which circumstances are shown. Start at [`compare`].

use crate::document::Document;
use crate::output::Output;
use crate::session::{StudyChoice, document_of};
use anyhow::bail;
use speedwell_analysis::{self as analysis, Findings, Settings};
use speedwell_model::Session;

/// A label, a session, and which variant of it takes part.
pub type Labelled<'a> = (String, &'a Session, Option<String>);

/// The findings of a comparison: of several sources with each other, the first being the baseline; of one, of its variants.
///
/// # Errors
/// The only source has a single variant.
pub fn compare(sources: &[Labelled<'_>], settings: &Settings) -> anyhow::Result<Findings> {
    match sources {
        [(_, only, _)] => within(only, settings),
        many => Ok(analysis::compare_sources(many, settings)),
    }
}

/// The report of a comparison, with the circumstances of every session in it.
///
/// # Errors
/// A parameter, chart or unit that does not fit.
pub fn document(
    sources: &[Labelled<'_>],
    findings: &Findings,
    study: &StudyChoice,
    settings: &Settings,
    output: &Output,
) -> anyhow::Result<Document> {
    let Some((_, session, _)) = sources.first() else {
        return Ok(Document::default());
    };
    let mut document = document_of(session, findings, study, settings, output)?;
    document.append(crate::circumstances(&once(sources), findings));
    Ok(document)
}

/// Refuses a comparison without a single row.
///
/// # Errors
/// No case has results on both sides.
pub fn check(findings: &Findings) -> anyhow::Result<()> {
    if findings
        .comparisons
        .iter()
        .all(|found| found.rows.is_empty())
    {
        bail!(
            "nothing was compared: the sources have no case with results in common\nhint: \
             '::REGEX' behind each source pairs cases of different names"
        );
    }
    Ok(())
}

/// The sessions behind the sources, each once, by name where there are several.
fn once<'a>(sources: &'a [Labelled<'_>]) -> Vec<(Option<&'a str>, &'a Session)> {
    let mut sessions: Vec<(Option<&str>, &Session)> = Vec::new();
    for (label, session, _) in sources {
        if sessions.iter().all(|(_, known)| known.id != session.id) {
            sessions.push((Some(label.as_str()), session));
        }
    }
    if let [(name, _)] = &mut sessions[..] {
        *name = None;
    }
    sessions
}

fn within(session: &Session, settings: &Settings) -> anyhow::Result<Findings> {
    if session.variants.len() < 2 {
        bail!(
            "only one variant to compare: '{}'\nhint: name a second source, or measure with --old and --new",
            session.variants.first().map_or("none", |v| v.name.as_str())
        );
    }
    Ok(analysis::analyse(session, settings))
}

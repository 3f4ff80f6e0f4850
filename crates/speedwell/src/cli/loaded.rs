//! What is shown of a session whose runs were HTTP loads.
//!
//! Decides when the loads speak for themselves: a single one has more to say than the medians of one
//! value each; repeated ones are runs like any others, and their details stand behind them.

use crate::analysis::load::LoadFindings;
use crate::analysis::load::gate::Condition;
use crate::analysis::{self, Settings};
use crate::model::Session;
use crate::report::{self, Document, Output};

/// The report of a session with these loads.
///
/// # Errors
/// A unit or chart that does not fit.
pub fn document(
    session: &Session,
    loads: &[LoadFindings<'_>],
    settings: &Settings,
    output: &Output,
) -> anyhow::Result<Document> {
    let conditions = conditions(session);
    let levels = analysis::load::levels(loads);
    let rates = analysis::load::rates(loads, &conditions);
    if !levels.is_empty() || !rates.is_empty() {
        return Ok(report::load::search(loads, &levels, &rates, output));
    }
    let details = report::load::document(loads, output);
    let is_repeated = loads.iter().any(|load| load.run.round > 0);
    if !is_repeated || session.runs.is_empty() {
        return Ok(details);
    }
    let mut document = report::of(&analysis::of(session, settings), output)?;
    document.append(details);
    Ok(document)
}

/// The limits that were typed when the session was measured: the search for a rate was held against them.
fn conditions(session: &Session) -> Vec<Condition> {
    let mut words = session.command.iter();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let text = match word.strip_prefix("--fail-on") {
            Some("") => words.next().map(String::as_str),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        // Words that were no condition were refused before anything was measured.
        found.extend(text.and_then(|text| text.parse().ok()));
    }
    found
}

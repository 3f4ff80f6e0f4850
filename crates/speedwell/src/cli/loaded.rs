//! What is shown of a session whose runs were HTTP loads.
//!
//! Decides when the loads speak for themselves: a single one has more to say than the medians of one
//! value each; repeated ones are runs like any others, and their details stand behind them.

use crate::analysis::load::LoadFindings;
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
    let details = report::load::document(loads, output);
    let is_repeated = loads.iter().any(|load| load.run.round > 0);
    if !is_repeated || session.runs.is_empty() {
        return Ok(details);
    }
    let mut document = report::of(&analysis::of(session, settings), output)?;
    document.append(details);
    Ok(document)
}

//! Scenarios of whole sessions: what was measured, and what must be reported.

mod builds;
mod designs;
mod from_zero;
mod gates;
mod looks;
mod machines;
mod many_cases;
mod several_sessions;
mod studies;
mod verdicts;

use crate::{AnalysisFindings, AnalysisSettings, CandidateComparison, CaseComparison};
use speedwell_model::Session;

/// The comparison of a session of two variants.
fn only_comparison(session: &Session, settings: &AnalysisSettings) -> CandidateComparison {
    let mut comparisons = crate::analyze_session(session, settings).comparisons;
    assert_eq!(comparisons.len(), 1);
    comparisons.remove(0)
}

/// The comparison of a session of two variants and one case.
fn only_row(session: &Session, settings: &AnalysisSettings) -> CaseComparison {
    let mut rows = only_comparison(session, settings).rows;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// Whether one of the warnings contains the text.
fn warns(findings: &AnalysisFindings, text: &str) -> bool {
    findings.warnings.iter().any(|warning| warning.contains(text))
}

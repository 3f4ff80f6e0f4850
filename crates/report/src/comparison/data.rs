//! The settings and sums of each comparison, for machines: member `comparisons` of the JSON output.

use crate::table::number;
use serde_json::{Value, json};
use speedwell_analysis::{Comparison, Correction, Method};
use speedwell_model::{Estimate, Verdict};

/// One object per comparison.
pub fn comparisons(comparisons: &[Comparison]) -> Value {
    comparisons.iter().map(one).collect()
}

fn one(comparison: &Comparison) -> Value {
    let of = |verdict| comparison.rows_that_are(verdict).count();
    json!({
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "metric": comparison.metric,
        "method": method(comparison.method),
        "confidence": comparison.confidence,
        "delta": comparison.delta,
        "correction": correction(comparison.correction),
        "cases": comparison.rows.len(),
        "verdicts": {
            "better": of(Verdict::Better),
            "worse": of(Verdict::Worse),
            "same": of(Verdict::Same),
            "unclear": of(Verdict::Unclear),
        },
        "overall": comparison.overall.as_ref().map(estimate),
        "only_baseline": comparison.only_baseline,
        "only_candidate": comparison.only_candidate,
    })
}

/// An estimate; ends that are not finite are `null`.
fn estimate(estimate: &Estimate) -> Value {
    json!({
        "value": number(estimate.value),
        "low": number(estimate.low),
        "high": number(estimate.high),
    })
}

/// Methods as `--method` names them.
fn method(method: Method) -> &'static str {
    match method {
        Method::Rank => "rank",
        Method::Welch => "welch",
        Method::MannWhitney => "mann-whitney",
        Method::Bootstrap => "bootstrap",
    }
}

/// Corrections as `--correct` names them.
fn correction(correction: Correction) -> &'static str {
    match correction {
        Correction::BenjaminiHochberg => "bh",
        Correction::Holm => "holm",
        Correction::None => "none",
    }
}

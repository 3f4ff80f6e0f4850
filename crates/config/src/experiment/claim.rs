//! Reads `[[claim]]` tables. A claim is a statement in the report, and the data must support it.
//!
//! A claim over several cases is evaluated case by case. A term whose filter selects a single case
//! has the same value in every evaluation.

use super::group::BenchmarkGroup;
use super::selection::{SelectedCase, selected_cases};
use super::variant::{self, ExperimentVariant};
use crate::expression::{ClaimExpression, ExpressionError, MetricTerm, QuantityUnit};
use crate::file_part::{FilePart, nearest_hint};
use anyhow::Result;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::ParameterValue;

/// A claim.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportClaim {
    /// Sentence for the report.
    pub say: String,
    /// Condition under which the claim holds.
    pub expression: ClaimExpression,
    /// Text of the expression in the file.
    pub text: String,
    /// One row for every evaluation of the claim. A row holds one case for each of the
    /// [`ClaimExpression::terms`].
    pub rows: Vec<Vec<SelectedCase>>,
}

/// A statement in the report; the data must support it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimKeys {
    /// Sentence for the report. Default: the expression.
    say: Option<String>,
    /// Condition under which the claim holds: "latency_p50(green) < 2*latency_p50(red)".
    expr: String,
}

/// Resolves the claims of the file.
pub fn resolve_claims(
    claims: &[ClaimKeys],
    top: &FilePart,
    variants: &[ExperimentVariant],
    groups: &[BenchmarkGroup],
    params: &[(String, ParameterValue)],
) -> Result<Vec<ReportClaim>> {
    let parts = top.list_items("claim");
    let resolve = |(keys, part): (&ClaimKeys, &FilePart)| {
        let text = keys.expr.clone();
        let to_error = |error: ExpressionError| part.error_at_key("expr", error);
        let expression = ClaimExpression::parse_claim(&text).map_err(to_error)?;
        check_names(&expression, &text, params).map_err(to_error)?;
        Ok(ReportClaim {
            say: keys.say.clone().unwrap_or_else(|| text.clone()),
            rows: claim_rows(&expression, &text, variants, groups).map_err(to_error)?,
            expression,
            text,
        })
    };
    claims.iter().zip(&parts).map(resolve).collect()
}

fn check_names(
    claim: &ClaimExpression,
    text: &str,
    params: &[(String, ParameterValue)],
) -> Result<(), ExpressionError> {
    let names: Vec<String> =
        params.iter().map(|(name, _)| name.clone()).chain(["cpus".to_owned()]).collect();
    for name in claim.parameter_names() {
        let value = params.iter().find(|(other, _)| other == name);
        let is_text = value.is_some_and(|(_, value)| value.as_number().is_none());
        if !names.iter().any(|other| other == name) {
            let hint = format!(
                "{}; a metric is followed by a variant in parentheses",
                nearest_hint(name, &names)
            );
            return Err(ExpressionError::about_name(
                text,
                name,
                format!("unknown parameter '{name}'"),
                hint,
            ));
        }
        if is_text {
            let message = format!("the parameter '{name}' is not a number");
            return Err(ExpressionError::about_name(
                text,
                name,
                message,
                "set it to a number in [params]".to_owned(),
            ));
        }
    }
    Ok(())
}

fn claim_rows(
    claim: &ClaimExpression,
    text: &str,
    variants: &[ExperimentVariant],
    groups: &[BenchmarkGroup],
) -> Result<Vec<Vec<SelectedCase>>, ExpressionError> {
    let groups: Vec<&BenchmarkGroup> = groups.iter().collect();
    let mut columns: Vec<Vec<SelectedCase>> = Vec::new();
    let terms = claim.terms();
    for term in &terms {
        if variant::find_variant(variants, &term.variant).is_err() {
            let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
            let hint = nearest_hint(&term.variant, &names);
            let message = format!("unknown variant '{}'", term.variant);
            return Err(ExpressionError::about_name(text, &term.variant, message, hint));
        }
        let cases = selected_cases(&groups, Some(&term.metric), &term.filter);
        columns.push(cases.map_err(|error| error.in_expression(text))?);
    }
    check_units(claim, text, &columns, &groups)?;
    let multiple = columns.iter().find(|cases| cases.len() > 1);
    let differing = columns.iter().position(|cases| cases.len() > 1 && Some(cases) != multiple);
    if let Some(differing) = differing {
        return Err(differing_cases_error(text, terms[differing]));
    }
    let row_count = multiple.map_or(1, Vec::len);
    let row = |index: usize| {
        let row = columns.iter().map(|cases| if cases.len() > 1 { cases[index] } else { cases[0] });
        row.collect()
    };
    Ok((0..row_count).map(row).collect())
}

/// Rejects a time or size in a claim if no metric of the claim has its unit, because the numbers
/// would not be comparable.
fn check_units(
    claim: &ClaimExpression,
    text: &str,
    columns: &[Vec<SelectedCase>],
    groups: &[&BenchmarkGroup],
) -> Result<(), ExpressionError> {
    let mut units: Vec<String> = Vec::new();
    for (term, cases) in claim.terms().into_iter().zip(columns) {
        for case in cases {
            match groups[case.group].find_metric(&term.metric) {
                Some(metric) => units.push(metric.unit),
                // The metrics of benchmark files are known only when they are measured.
                None => return Ok(()),
            }
        }
    }
    let is_unmatched =
        |(_, unit): &(f64, QuantityUnit)| !units.iter().any(|other| other == unit.stored);
    match claim.quantities().into_iter().find(is_unmatched) {
        Some((number, unit)) => {
            let part = format!("{number}{}", unit.name);
            let message = format!("'{part}' cannot be compared with the metrics in this claim");
            let hint = "metrics such as cpu_cores are plain numbers".to_owned();
            Err(ExpressionError::about_name(text, &part, message, hint))
        }
        None => Ok(()),
    }
}

fn differing_cases_error(text: &str, term: &MetricTerm) -> ExpressionError {
    let message = format!("'{term}' covers different cases than the other side of the comparison");
    let hint = "name the group or case: time[promises, test=fibonacci](new)".to_owned();
    ExpressionError::about_name(text, &term.metric, message, hint)
}

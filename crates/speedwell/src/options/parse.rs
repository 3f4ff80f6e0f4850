//! Parses option values, such as counts, percentages and durations.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use speedwell_analysis::gate::FailOn;
use speedwell_model::MetricDirection;
pub use speedwell_model::parse::{count, duration, percentage_as_fraction};

/// Parses a confidence level, a percentage strictly between 50 and 100. Returns a fraction.
///
/// # Errors
/// Fails for anything else.
pub fn confidence(text: &str) -> Result<f64, String> {
    let level = percentage_as_fraction(text)?;
    if level > 0.5 && level < 1.0 {
        Ok(level)
    } else {
        Err("expected a confidence level between 50 and 100 %, such as 95".to_owned())
    }
}

/// Returns a parser for the name of a gate rule.
pub fn fail_on() -> impl TypedValueParser<Value = FailOn> {
    let help = |rule| match rule {
        FailOn::Worse => "A case that is worse",
        FailOn::Unclear => "A case that is worse, unclear, or on one side only",
        FailOn::Never => "Nothing",
    };
    let values = FailOn::ALL.map(|rule| PossibleValue::new(rule.name()).help(help(rule)));
    PossibleValuesParser::new(values).map(|name| {
        let rule = FailOn::ALL.into_iter().find(|rule| rule.name() == name);
        rule.unwrap_or_default()
    })
}

/// Parses a metric, and whether higher or lower is better: `misses/s=lower`. Names may contain `=`.
///
/// # Errors
/// Fails if no direction follows the last `=`.
pub fn better(text: &str) -> Result<(String, MetricDirection), String> {
    let (name, direction) = text.rsplit_once('=').unwrap_or((text, ""));
    let better = match direction {
        "higher" => MetricDirection::Higher,
        "lower" => MetricDirection::Lower,
        _ => {
            return Err(
                "expected METRIC=higher or METRIC=lower, such as 'misses/s=lower'".to_owned()
            );
        }
    };
    Ok((name.to_owned(), better))
}

/// Parses a name and its value: `n=10`.
///
/// # Errors
/// Fails if there is no `=`, or nothing before it.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_parsed_as_fractions() {
        assert_eq!(
            (percentage_as_fraction("5%"), percentage_as_fraction("0.5")),
            (Ok(0.05), Ok(0.005))
        );
        assert!(percentage_as_fraction("-1").is_err() && percentage_as_fraction("x%").is_err());
        assert!(confidence("100").is_err() && confidence("95%") == Ok(0.95));
    }
}

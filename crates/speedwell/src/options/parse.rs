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
        Err("expected a confidence level between 50 and 100%, such as 95".to_owned())
    }
}

/// A value of an option: its name, help and meaning.
pub type Choice<T> = (&'static str, &'static str, T);

/// The rules of a gate.
pub const FAIL_ON: [Choice<FailOn>; 3] = [
    ("worse", "A case that is worse", FailOn::Worse),
    ("unclear", "A case that is worse, unclear, or on one side only", FailOn::Unclear),
    ("never", "Nothing", FailOn::Never),
];

/// Returns a parser for the names of `choices`.
pub fn choice<T, const N: usize>(choices: [Choice<T>; N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let values = choices.map(|(name, help, _)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(move |typed| {
        let found = choices.iter().find(|(name, ..)| *name == typed);
        found.map(|(.., value)| *value).ok_or("unknown name")
    })
}

/// Returns the name of a value among `choices`.
pub fn name_of_choice<T: PartialEq>(choices: &[Choice<T>], value: T) -> Option<&'static str> {
    choices.iter().find(|(.., other)| *other == value).map(|(name, ..)| *name)
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

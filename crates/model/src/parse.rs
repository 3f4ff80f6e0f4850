//! Parses the values of options: counts, percentages and durations.
//!
//! The error messages say what is expected, and clap adds the option and the value.

use crate::{ParameterValue, ValueKind, parse_duration};
use std::time::Duration;

/// Parses a whole number from 1 to 4 billion; accepts `10k`, `2M`, `1e6`.
///
/// # Errors
/// Fails for anything else.
pub fn count(text: &str) -> Result<u32, String> {
    match ParameterValue::parse(text, ValueKind::Number) {
        Some(ParameterValue::Number(n)) if n >= 1.0 && n.fract() == 0.0 && n <= 4e9 => Ok(n as u32),
        _ => Err("expected a whole number of at least 1, such as 30, 10k or 1e6".to_owned()),
    }
}

/// Parses a percentage: `5%` and `5` are 5.
///
/// # Errors
/// Fails if the text is not a number of 0 or more.
pub fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected a percentage such as 5% or 0.5".to_owned()),
    }
}

/// Parses a percentage as a fraction: `5%` and `5` are 0.05.
///
/// # Errors
/// Fails under the same conditions as [`percentage`].
pub fn percentage_as_fraction(text: &str) -> Result<f64, String> {
    Ok(percentage(text)? / 100.0)
}

/// Parses a duration: `500ms`, `3s`, `2m`, `1h`. The default unit is seconds.
///
/// # Errors
/// Fails for anything else, including zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a duration such as 500ms, 3s or 2m".to_owned())
}

/// Parses a duration as in [`duration`], or `0`.
///
/// # Errors
/// Fails for anything else.
pub fn duration_or_none(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" | "0ms" => Ok(Duration::ZERO),
        _ => duration(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_accept_suffixes_and_refuse_fractions() {
        assert_eq!((count("30"), count("10k"), count("1e6")), (Ok(30), Ok(10_000), Ok(1_000_000)));
        for invalid in ["0", "-1", "1.5", "abc", "", "1e12"] {
            assert!(count(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        for invalid in ["", "0", "-1s", "3 weeks", "s"] {
            assert!(duration(invalid).is_err(), "{invalid}");
        }
        assert_eq!(duration_or_none("0"), Ok(Duration::ZERO));
        assert!(duration_or_none("-1s").is_err());
    }
}
